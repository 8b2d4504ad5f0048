import Addressing
import Bytes
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Calls that phones make through the upstream.
extension ProxyEngine {
    /// The Warning and Retry-After of the 503 to a phone while the upstream does not answer.
    var upstreamIsAway: [AddedField] {
        [
            .warning(399, by: identity.domains.first ?? ByteString("sippushd"), "The upstream does not answer"),
            Self.retryAfter(seconds: 10),
        ]
    }

    /// A phone's call to the upstream begins. A call of an earlier run keeps its original start.
    func outgoingBegan(
        _ call: ProxiedRequest, _ incoming: IncomingRequest, _ next: RouteSet.Next, since earlier: UnixTime? = nil,
        now: Moment
    ) {
        let date = min(earlier ?? now.date, now.date)
        call.purpose = .outgoing(OutgoingCall(since: now.instant + (date - now.date)))
        if earlier == nil { counters.count(.outgoingCall) }
        guard let caller = callingUser(incoming) else { return }
        ledger.began(call, of: caller, to: next.requestURI.text, incoming, since: date, now: now)
    }

    /// The upstream has sent its first response other than 100.
    func noteRinging(_ outgoing: OutgoingCall, now: Moment) {
        guard !outgoing.isHeard else { return }
        outgoing.isHeard = true
        counters.observe(.upstreamAnswer, now.instant - outgoing.since)
    }

    /// The caller of an outgoing call has got the final response.
    func outgoingEnded(_ call: ProxiedRequest) {
        guard let outgoing = call.outgoing, !outgoing.isCounted else { return }
        outgoing.isCounted = true
        counters.count(Counter(outgoing: call.fork.branches.first?.end))
    }
}

extension Counter {
    fileprivate init(outgoing end: ForkBranch.End?) {
        switch end {
        case .succeeded: self = .outgoingAnswered
        case .failed: self = .outgoingRefused
        case .gaveUp(.requestTimeout), .silent, nil: self = .outgoingUnanswered
        case .gaveUp: self = .outgoingUnreachable
        case .cancelled: self = .outgoingGivenUp
        }
    }
}
