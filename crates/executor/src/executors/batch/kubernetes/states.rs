//! Interprets the states of jobs and pods.

use super::job::CONTAINER;
use crate::executors::batch::State;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerState, Pod};
use std::collections::{BTreeSet, HashMap};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const JOB: &str = "batch.kubernetes.io/job-name";

/// The numbers of a list such as `1,3-5,7`. Anything else is ignored, and so are numbers that are not below `end`.
pub(super) fn indexes(text: &str, end: usize) -> BTreeSet<usize> {
    let range = |part: &str| -> Option<std::ops::RangeInclusive<usize>> {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        Some(a.trim().parse().ok()?..=b.trim().parse::<usize>().ok()?.min(end.checked_sub(1)?))
    };
    text.split(',').filter_map(range).flatten().collect()
}

/// The job of a pod, and its part.
pub(super) fn part_of(pod: &Pod) -> Option<(&str, usize)> {
    let labels = pod.metadata.labels.as_ref()?;
    let index = labels.get(INDEX).or_else(|| pod.metadata.annotations.as_ref()?.get(INDEX))?;
    Some((labels.get(JOB)?, index.parse().ok()?))
}

fn state_of(pod: &Pod) -> Option<&ContainerState> {
    pod.status.as_ref()?.container_statuses.as_ref()?.iter().find(|c| c.name == CONTAINER)?.state.as_ref()
}

fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}

/// How a failed pod has ended.
pub(super) fn ended(pod: &Pod) -> State {
    let status = pod.status.as_ref();
    let (reason, message) = (text(status.and_then(|s| s.reason.as_ref())), text(status.and_then(|s| s.message.as_ref())));
    if reason == "DeadlineExceeded" {
        return State::TimedOut;
    }
    let terminated = state_of(pod).and_then(|s| s.terminated.as_ref());
    if terminated.is_some_and(|t| t.reason.as_deref() == Some("OOMKilled")) {
        return State::OutOfMemory;
    }
    let taken = status.and_then(|s| s.conditions.as_ref()?.iter().find(|c| c.type_ == "DisruptionTarget" && c.status == "True"));
    if let Some(c) = taken {
        return State::Lost(format!("its pod was taken away ({}): {}", text(c.reason.as_ref()), text(c.message.as_ref())));
    }
    if !reason.is_empty() {
        return State::Lost(format!("Kubernetes says {reason}: {message}"));
    }
    match terminated {
        // The container could not be started, or its end was not observed.
        Some(t) if matches!(t.reason.as_deref(), Some("StartError" | "ContainerCannotRun" | "ContainerStatusUnknown")) => {
            State::Lost(format!("{}: {}", text(t.reason.as_ref()), text(t.message.as_ref())))
        }
        Some(t) if t.exit_code > 128 => State::Lost(format!("signal {} ended it", t.exit_code - 128)),
        Some(t) => State::Exited(t.exit_code),
        None => State::Lost("its pod failed, and Kubernetes does not say why".into()),
    }
}

/// Why a pod does not start.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Trouble {
    /// It never will.
    Never(String),
    /// Its image is missing.
    Image(String),
    /// There is no node for it now.
    Room(String),
}

impl Trouble {
    pub fn message(&self) -> &str {
        let (Trouble::Never(m) | Trouble::Image(m) | Trouble::Room(m)) = self;
        m
    }
}

/// What keeps a pod from starting, if anything does.
pub(super) fn trouble(pod: &Pod) -> Option<Trouble> {
    if let Some(waiting) = state_of(pod).and_then(|s| s.waiting.as_ref()) {
        let reason = text(waiting.reason.as_ref());
        let said = format!("{reason}: {}", text(waiting.message.as_ref()));
        return match reason {
            "InvalidImageName" | "ErrImageNeverPull" | "CreateContainerConfigError" => Some(Trouble::Never(said)),
            "ImagePullBackOff" | "ErrImagePull" | "RegistryUnavailable" | "ImageInspectError" => Some(Trouble::Image(said)),
            _ => None,
        };
    }
    let placed = pod.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False")?;
    (placed.reason.as_deref() == Some("Unschedulable")).then(|| Trouble::Room(format!("Unschedulable: {}", text(placed.message.as_ref()))))
}

/// The parts of a job that have ended. `failed` has its failed pods by part.
pub(super) fn of_job(job: &Job, parts: &[usize], failed: &HashMap<usize, &Pod>) -> Vec<(usize, State)> {
    let end = job.spec.as_ref().and_then(|s| s.completions).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let status = job.status.clone().unwrap_or_default();
    let succeeded = indexes(text(status.completed_indexes.as_ref()), end);
    let mut lost = indexes(text(status.failed_indexes.as_ref()), end);
    // The pod of this part has failed, but its job does not count it yet.
    lost.extend(failed.keys().copied().filter(|k| !succeeded.contains(k)));
    let over = status.conditions.iter().flatten().find(|c| matches!(c.type_.as_str(), "Failed" | "Complete") && c.status == "True");
    let of = |k: usize| -> Option<State> {
        if succeeded.contains(&k) {
            return Some(State::Exited(0));
        }
        if lost.contains(&k) {
            let gone = || State::Lost("its pod was deleted".into());
            return Some(failed.get(&k).map_or_else(gone, |p| ended(p)));
        }
        let c = over?;
        let said = format!("its job ended ({}): {}", text(c.reason.as_ref()), text(c.message.as_ref()));
        Some(if c.reason.as_deref() == Some("DeadlineExceeded") { State::TimedOut } else { State::Lost(said) })
    };
    parts.iter().filter_map(|&k| Some((k, of(k)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "labels": {INDEX: "3", JOB: "j"}}, "status": status})).unwrap()
    }

    fn terminated(state: Value) -> Value {
        let container =
            json!({"name": CONTAINER, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": state}});
        json!({"phase": "Failed", "containerStatuses": [container]})
    }

    #[test]
    fn lists_of_indexes() {
        assert_eq!(indexes("", 9), [].into());
        assert_eq!(indexes("1,3-5,7", 9), [1, 3, 4, 5, 7].into());
        assert_eq!(indexes("0-99999999999", 3), [0, 1, 2].into());
        assert_eq!(indexes("x,2-,-3", 5), [].into());
        assert_eq!(indexes("0", 0), [].into());
    }

    #[test]
    fn ends_of_pods() {
        assert_eq!(part_of(&pod(json!({}))), Some(("j", 3)));
        assert_eq!(ended(&pod(terminated(json!({"exitCode": 137, "reason": "OOMKilled"})))), State::OutOfMemory);
        assert_eq!(ended(&pod(terminated(json!({"exitCode": 137, "reason": "Error"})))), State::Lost("signal 9 ended it".into()));
        assert_eq!(ended(&pod(terminated(json!({"exitCode": 11, "reason": "Error"})))), State::Exited(11));
        assert_eq!(ended(&pod(json!({"phase": "Failed", "reason": "DeadlineExceeded"}))), State::TimedOut);
        let evicted = ended(&pod(json!({"phase": "Failed", "reason": "Evicted", "message": "low on disk"})));
        assert!(matches!(evicted, State::Lost(why) if why.contains("Evicted: low on disk")));
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
        let taken = ended(&pod(json!({"phase": "Failed", "conditions": [condition]})));
        assert!(matches!(taken, State::Lost(why) if why.contains("PreemptionByScheduler")));
    }

    #[test]
    fn pods_that_do_not_start() {
        let waiting = |reason: &str| {
            let state = json!({"waiting": {"reason": reason, "message": "m"}});
            let container = json!({"name": CONTAINER, "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": state});
            trouble(&pod(json!({"phase": "Pending", "containerStatuses": [container]})))
        };
        assert!(matches!(waiting("ImagePullBackOff"), Some(Trouble::Image(_))));
        assert!(matches!(waiting("InvalidImageName"), Some(Trouble::Never(_))));
        assert_eq!(waiting("ContainerCreating"), None);
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"});
        let placed = trouble(&pod(json!({"phase": "Pending", "conditions": [condition]})));
        assert!(matches!(placed, Some(Trouble::Room(m)) if m.contains("0/3 nodes")));
    }

    #[test]
    fn parts_of_jobs() {
        let job: Job = serde_json::from_value(json!({
            "metadata": {"name": "j"}, "spec": {"completions": 6, "template": {}},
            "status": {"completedIndexes": "0-1", "failedIndexes": "2,3"},
        }))
        .unwrap();
        let dead = pod(terminated(json!({"exitCode": 12})));
        let states = of_job(&job, &[0, 2, 3, 4], &HashMap::from([(3, &dead)]));
        assert_eq!(states, [(0, State::Exited(0)), (2, State::Lost("its pod was deleted".into())), (3, State::Exited(12))]);
        let mut over = job.clone();
        let condition = json!({"type": "Failed", "status": "True", "reason": "FailedIndexes", "message": "m"});
        over.status.as_mut().unwrap().conditions = Some(vec![serde_json::from_value(condition).unwrap()]);
        assert!(matches!(&of_job(&over, &[4], &HashMap::new())[0].1, State::Lost(why) if why.contains("FailedIndexes")));
    }
}
