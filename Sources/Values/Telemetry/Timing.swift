/// A kind of duration that is measured repeatedly and counted in a histogram.
package enum Timing: Int, CaseIterable, Sendable {
    case storeCommit, pushAnswer, delivery, upstreamAnswer

    package var name: MetricName {
        switch self {
        case .storeCommit: MetricName("sippushd_store_commit_seconds", "Duration of a commit of the store.")
        case .pushAnswer:
            MetricName("sippushd_push_answer_seconds", "Time from sending a push to the provider's answer.")
        case .delivery:
            MetricName("sippushd_delivery_seconds", "Time from a held INVITE's arrival to its delivery to a phone.")
        case .upstreamAnswer:
            MetricName(
                "sippushd_upstream_answer_seconds",
                "Time from a phone's INVITE to the upstream's first response other than 100.")
        }
    }
}
