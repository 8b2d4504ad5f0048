/// A scenario with its result, for the page of the option `--html`.
package struct PlayedScenario: Sendable {
    package enum Result: Hashable, Sendable {
        case passed, failed
        /// Why the scenario was not played.
        case skipped(String)
    }

    package let name: String
    package let about: String
    package var result = Result.passed
    package var columns: [String] = []
    package var events: [PlayedEvent] = []
    package var differences: [Difference] = []
    /// The push tokens of the scenario, each with its owner if known.
    package var tokens: [KnownToken] = []
    /// The passwords and API keys of the scenario, which the page must not show.
    package var secrets: [String] = []
    /// The last output of daemon and sandbox, if the scenario failed.
    package var lastWords: [String] = []

    package init(name: String, about: String, result: Result = .passed) {
        self.name = name
        self.about = about
        self.result = result
    }
}

package struct KnownToken: Hashable, Sendable {
    package let token: String
    package let owner: String?
}

/// One line of the ladder diagram, with its text.
package struct PlayedEvent: Hashable, Sendable {
    package enum Content: Hashable, Sendable {
        /// A SIP message.
        case message(String)
        case push(PushRecord)
        /// A request to the HTTP API, with its body and the answer's body.
        case request(APIRequest, sent: String, answer: String)
        case remark
    }

    package let line: Ladder.Event
    package let content: Content
    package let place: Difference.Place
}

extension Scenario {
    /// The push tokens in the scenario and in the pushes.
    func tokens(of pushes: [PushRecord]) -> [KnownToken] {
        var known: [KnownToken] = []
        var seen: Set<String> = []
        func add(_ token: String, _ owner: String?) {
            if !token.isEmpty, seen.insert(token).inserted { known.append(KnownToken(token: token, owner: owner)) }
        }
        for step in steps {
            let keys = step.actor?.keys ?? step.program?.keys ?? [:]
            if let token = keys["token"] { add(token, step.role == .phone ? step.place : nil) }
        }
        let usual = steps.first { $0.role == .phone && ($0.actor?.keys ?? $0.program?.keys)?["token"] == nil }
        if let usual { add(Performance.usualToken, usual.place) }
        for token in pushes.map(\.token) + self.pushes.map(\.token) + tokens.map(\.token) { add(token, nil) }
        return known
    }

    /// The passwords of users, and the values of secret keys.
    var secrets: [String] {
        let keys = steps.flatMap { Array($0.actor?.keys ?? $0.program?.keys ?? [:]) }
        return users.map(\.password) + keys.filter { $0.key != "token" && PageMask.isSecret($0.key) }.map(\.value)
    }
}
