import Bytes
package import Reactor
package import Registration
import Telemetry

/// The answer of a source about a user whom nobody has.
package struct UserSourceFact: Hashable, Sendable {
    /// The name of the source in the settings.
    package let name: String
    /// The answer; `nil` if the source cannot be asked from here, because systemd has not passed its credential.
    package let answer: UserAnswer?

    package init(name: String, answer: UserAnswer?) {
        self.name = name
        self.answer = answer
    }
}

extension UserSources {
    /// The user that is asked for. Its name is in no database.
    private static let nobody = ByteString("sippushd-doctor")

    /// Asks each source for a user whom nobody has. `done` is called once, on the loop, later.
    ///
    /// - Parameters:
    ///   - settings: the settings of these sources.
    ///   - domain: the domain for sources that have the users of all domains.
    ///   - realm: the realm of the challenge in a domain.
    ///   - done: gets one fact for each source, in their order.
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

    /// The facts that have come so far. Only the loop uses them.
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

    /// Asks the sources of these settings on a loop of its own, and waits for their answers.
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
