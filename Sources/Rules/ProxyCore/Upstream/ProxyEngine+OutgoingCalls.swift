import Addressing
import Bytes
import SIPGrammar
import SIPTransactions
import Telemetry
import Timekeeping

/// Calls that phones make by way of the upstream.
extension ProxyEngine {
    /// What a phone is told whose request nobody would answer.
    var upstreamIsAway: [AddedField] {
        [
            .warning(399, by: identity.domains.first ?? ByteString("sippushd"), "The upstream does not answer"),
            Self.retryAfter(seconds: 10),
        ]
    }

    /// A phone calls somebody by way of the upstream; a call of an earlier run has begun before.
    func outgoingBegan(
        _ call: Call, _ incoming: IncomingRequest, _ next: RouteSet.Next, since earlier: UnixTime? = nil, now: Moment
    ) {
        let date = min(earlier ?? now.date, now.date)
        call.matter = .outgoing(OutgoingCall(since: now.instant + (date - now.date)))
        if earlier == nil { counters.count(.outgoingCall) }
        guard let caller = callingUser(incoming) else { return }
        ledger.began(call, of: caller, to: next.requestURI.text, incoming, since: date, now: now)
    }

    /// The upstream has said more than 100 for the first time.
    func noteRinging(_ outgoing: OutgoingCall, now: Moment) {
        guard !outgoing.isHeard else { return }
        outgoing.isHeard = true
        counters.observe(.upstreamAnswer, now.instant - outgoing.since)
    }

    /// Its caller has the final response.
    func outgoingEnded(_ call: Call) {
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
