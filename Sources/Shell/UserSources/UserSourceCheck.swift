import Bytes
package import Reactor
package import Registration
import Telemetry

/// The answer of one source of users to the test query; the query is about a user who should not exist.
package struct UserSourceFact: Hashable, Sendable {
    /// The name of the source of users in the settings.
    package let name: String
    /// The answer; `nil` if this process cannot ask the source, because systemd has not passed the source's credential.
    package let answer: UserAnswer?

    package init(name: String, answer: UserAnswer?) {
        self.name = name
        self.answer = answer
    }
}

extension UserSources {
    /// The user name in the test query; no database should contain this name.
    private static let nobody = ByteString("sippushd-doctor")

    /// Asks each source about a user who should not exist, and calls `done` once with all answers, on the loop.
    ///
    /// - Parameters:
    ///   - settings: the settings of the sources.
    ///   - domain: the domain in the query to sources that have the users of all domains.
    ///   - realm: returns the realm for which the daemon challenges phones of a domain.
    ///   - done: gets one fact for each source, in the order of the sources.
    package func check(
        _ settings: UserSettings, domain: String, realm: (String) -> String,
        _ done: @escaping ([UserSourceFact]) -> Void
    ) {
        let names = settings.inOrder.map(\.name)
        let facts = Facts(missing: names.count, done)
        for (place, (name, source)) in settings.inOrder.enumerated() {
            guard source.unseenCredential == nil else {
                facts.add(UserSourceFact(name: name, answer: nil), at: place)
                continue
            }
            let domain = source.domains.first ?? domain
            let question = UserQuestion(
                ticket: UserTicket(UInt64(place)), source: place, name: Self.nobody, domain: ByteString(domain),
                realm: ByteString(realm(domain)))
            ask(question) { facts.add(UserSourceFact(name: name, answer: $0), at: place) }
        }
        if names.isEmpty { done([]) }
    }

    /// Collects the answers of the sources on the loop, and passes them on after the last answer.
    private final class Facts {
        private var found: [Int: UserSourceFact] = [:]
        private let missing: Int
        private let done: ([UserSourceFact]) -> Void

        init(missing: Int, _ done: @escaping ([UserSourceFact]) -> Void) {
            self.missing = missing
            self.done = done
        }

        func add(_ fact: UserSourceFact, at place: Int) {
            found[place] = fact
            if found.count == missing { done(found.sorted { $0.key < $1.key }.map(\.value)) }
        }
    }

    /// Asks the sources in `settings` on a temporary loop, and returns when all have answered.
    package static func facts(
        of settings: UserSettings, domain: String, realm: (String) -> String
    ) throws(SystemError) -> [UserSourceFact] {
        guard !settings.order.isEmpty else { return [] }
        let loop = try EventLoop()
        let sources = try UserSources(settings, on: loop)
        var found: [UserSourceFact] = []
        sources.check(settings, domain: domain, realm: realm) { facts in
            found = facts
            loop.stop()
        }
        loop.run()
        sources.close()
        return found
    }
}
