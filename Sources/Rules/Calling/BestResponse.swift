package import SIPGrammar

/// Chooses the final response for the caller from the branches' final responses (RFC 3261 section 16.7 item 6).
package struct BestResponse: Sendable {
    /// The status of the best final response so far; `nil` while no branch has failed.
    package private(set) var status: Status?
    private var response: SIPResponse?
    /// Whether ``decide(_:)`` has fixed the status, so that responses of branches no longer change it.
    private var isDecided = false
    /// The 401 and 407 responses whose challenges are added to the final response.
    private var challenges: [SIPResponse] = []

    /// Compares the final status of a failed branch with the best status so far. The parameter `response` is `nil` if
    /// the branch received no response.
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

    /// Fixes the status of the final response, so that responses of branches no longer change it.
    package mutating func decide(_ status: Status) { (self.status, response, isDecided) = (status, nil, true) }

    /// The ``Fork/Order`` that sends the final response of a fork whose branches have all ended.
    package func order(isInvite: Bool) -> Fork.Order {
        guard let status else { return isInvite ? .respond(.requestTimeout) : .giveUp }
        // The caller gets 500 instead of a branch's 503, because the 503 describes one next hop and not this proxy.
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

    /// The ``Fork/Order`` that sends the final response of a fork whose caller has sent CANCEL.
    var orderAfterCancel: Fork.Order {
        guard let status, status.statusClass == 6, let response else { return .respond(.requestTerminated) }
        return .relay(response)
    }

    private static func isChallenge(_ status: Status) -> Bool {
        status == .unauthorized || status == .proxyAuthenticationRequired
    }

    /// Whether a status is better than the best status so far.
    ///
    /// A 6xx is best; without a 6xx, a status of the lowest class is best. Among 4xx statuses, a status that tells the
    /// caller how to continue is best.
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
        // The response of a device is better than a time-out, and better than the status for a device that never woke.
        case 408, 480, 487, 503: within = 2
        default: within = 1
        }
        return Int(status.statusClass) * 10 + within
    }
}
