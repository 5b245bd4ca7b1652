// The least that any program must do, on some threads: what Chunkwise is measured against in loops.py.
//
//   loops read THREADS FILE...            read every file in pieces of 256 KB
//   loops whole THREADS FILE...           read every file whole, into one buffer of up to 64 MB
//   loops add THREADS FILE...             read in pieces of 256 KB and add them up as floats
//   loops widen THREADS FILE...           the same, as doubles
//   loops decode THREADS BYTES FILE...    read every file whole and decode its zstd into a buffer of so many bytes
//   loops write THREADS IN OUT COUNT      read the chunks IN/c/0 to COUNT, add one to their floats, write each under another name, rename it
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_int next;
static int count;
static double (*adds)(const float *, size_t);
static size_t piece_bytes = 256 << 10;
static char **files, *in, *out;
static size_t bytes;
static size_t (*decompress)(void *, size_t, const void *, size_t);
static volatile double kept;

#define SUM(name, type, LANES)                                    \
    static double name(const float *x, size_t n) {                \
        type lanes[LANES] = {0}, all = 0;                         \
        for (size_t i = 0; i + LANES <= n; i += LANES)            \
            for (int j = 0; j < LANES; j++) lanes[j] += x[i + j]; \
        for (int j = 0; j < LANES; j++) all += lanes[j];          \
        return all;                                               \
    }
SUM(sum, float, 128)
SUM(wide_sum, double, 64)

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void *reads(void *unused) {
    char *piece = aligned_alloc(4096, piece_bytes);
    double all = 0;
    for (int i; (i = next++) < count;) {
        int file = open(files[i], O_RDONLY);
        if (file < 0) fail(files[i]);
        ssize_t n;
        while ((n = read(file, piece, piece_bytes)) > 0)
            if (adds) all += adds((float *)piece, n / sizeof(float));
        if (n < 0) fail(files[i]);
        close(file);
    }
    kept = all;
    free(piece);
    return unused;
}

static void *decodes(void *unused) {
    char *to = malloc(bytes), *from = malloc(2 * bytes);
    // Pages of its own, once.
    memset(to, 0, bytes), memset(from, 0, 2 * bytes);
    for (int i; (i = next++) < count;) {
        int file = open(files[i], O_RDONLY);
        ssize_t n = file < 0 ? -1 : read(file, from, 2 * bytes);
        if (n < 0) fail(files[i]);
        close(file);
        if (decompress(to, bytes, from, n) != bytes) fail("decoding");
    }
    return unused;
}

static void *writes(void *unused) {
    char from[512], to[512], path[512];
    float chunk[16384];
    for (int i; (i = next++) < count;) {
        snprintf(from, sizeof from, "%s/c/%d", in, i);
        snprintf(path, sizeof path, "%s/c/%d.new", out, i);
        snprintf(to, sizeof to, "%s/c/%d", out, i);
        int file = open(from, O_RDONLY);
        ssize_t n = file < 0 ? -1 : read(file, chunk, sizeof chunk);
        if (n < 0) fail(from);
        close(file);
        for (size_t k = 0; k < n / sizeof(float); k++) chunk[k] += 1;
        file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
        if (file < 0 || write(file, chunk, n) != n) fail(path);
        close(file);
        if (rename(path, to)) fail(to);
    }
    return unused;
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    int threads = atoi(argv[2]), write = !strcmp(argv[1], "write"), decode = !strcmp(argv[1], "decode");
    void *(*work)(void *) = write ? writes : decode ? decodes : reads;
    adds = !strcmp(argv[1], "add") ? sum : !strcmp(argv[1], "widen") ? wide_sum : 0;
    if (!strcmp(argv[1], "whole")) piece_bytes = 64 << 20;
    if (write) {
        char path[512];
        if (argc != 6) return 2;
        in = argv[3], out = argv[4], count = atoi(argv[5]);
        snprintf(path, sizeof path, "%s/c", out);
        if (mkdir(out, 0755) || mkdir(path, 0755)) fail(out);
    } else {
        files = argv + 3, count = argc - 3;
    }
    if (decode) {
        bytes = atoll(*files++), count--;
        void *library = dlopen("libzstd.so.1", RTLD_NOW);
        if (!library || !(decompress = dlsym(library, "ZSTD_decompress"))) return 3;
    }
    pthread_t others[64];
    for (int i = 0; i < threads && i < 64; i++) pthread_create(&others[i], 0, work, 0);
    for (int i = 0; i < threads && i < 64; i++) pthread_join(others[i], 0);
    return 0;
}
