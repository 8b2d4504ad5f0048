package import SIPGrammar

/// Chooses which branch's final response goes upstream (RFC 3261 section 16.7 item 6).
package struct BestResponse: Sendable {
    /// The status of the fork's final response so far; `nil` while no branch has failed. If ``response`` is `nil`, we
    /// chose the status.
    package private(set) var status: Status?
    private var response: SIPResponse?
    /// Whether the fork itself chose the status, by ``decide(_:)``.
    private var isDecided = false
    /// Responses 401 and 407 other than the best response. The caller gets their challenges too.
    private var challenges: [SIPResponse] = []

    /// A branch has failed with this status.
    package mutating func consider(_ status: Status, _ response: SIPResponse?) {
        var other = response
        if isBetter(status) {
            other = self.status.map(Self.isChallenge) == true ? self.response : nil
            (self.status, self.response) = (status, response)
        } else if !Self.isChallenge(status) {
            other = nil
        }
        if let other { challenges.append(other) }
    }

    /// The fork's final response has this status, whatever its branches respond.
    package mutating func decide(_ status: Status) { (self.status, response, isDecided) = (status, nil, true) }

    /// The order for a fork whose branches are all over.
    package func order(isInvite: Bool) -> Fork.Order {
        guard let status else { return isInvite ? .respond(.requestTimeout) : .giveUp }
        // A 503 of a branch concerns one next hop, not this proxy.
        if status == .serviceUnavailable, !isDecided {
            return response.map { .respondInstead(of: $0, .serverError) } ?? .respond(.serverError)
        }
        if let response {
            let isChallenge = Self.isChallenge(status) && !challenges.isEmpty
            return isChallenge ? .relayChallenge(response, others: challenges) : .relay(response)
        }
        if status == .requestTimeout, !isInvite { return .giveUp }
        return .respond(status)
    }

    /// The order for a fork whose caller has sent CANCEL.
    var orderAfterCancel: Fork.Order {
        guard let status, status.statusClass == 6, let response else { return .respond(.requestTerminated) }
        return .relay(response)
    }

    private static func isChallenge(_ status: Status) -> Bool {
        status == .unauthorized || status == .proxyAuthenticationRequired
    }

    /// Prefers 6xx to all, then the lowest class. Within 4xx it prefers statuses that tell the caller how to continue.
    private func isBetter(_ status: Status) -> Bool {
        guard let best = self.status else { return true }
        return Self.rank(status) < Self.rank(best)
    }

    private static func rank(_ status: Status) -> Int {
        if status.statusClass == 6 { return 0 }
        let helpful: [UInt16] = [401, 407, 415, 420, 484]
        let within: Int
        switch status.code {
        case let code where helpful.contains(code): within = 0
        // A device's response says more than a time-out, or a device that never woke.
        case 408, 480, 487, 503: within = 2
        default: within = 1
        }
        return Int(status.statusClass) * 10 + within
    }
}
