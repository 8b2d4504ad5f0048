import Crypto
import Foundation
import LoopTesting
import ProviderTesting
import PushDelivery
import PushSandbox
import Reactor
import Telemetry
import TestSupport
import Testing
import Timekeeping

@testable import PushSending

/// Tests that the daemon tries credentials in the background, and logs each problem once.
@Suite("Trials of credentials at the start", .timeLimit(.minutes(2)))
struct CredentialWatchTests {
    /// A ``CredentialWatch``, which checks push credentials, on an event loop, with its results.
    private actor Watcher {
        let loop: EventLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
        nonisolated let log = MemoryLogSink()
        private var service: PushService?
        private var watch: CredentialWatch?
        /// The pauses between checks that the ``CredentialWatch`` has requested.
        private(set) var pauses: [ClosedRange<Double>] = []

        init(_ loop: EventLoop) { self.loop = loop }

        func start(_ settings: PushSettings) throws {
            let log = Log(level: .info, sink: log) { UnixTime(milliseconds: 0) }
            let service = try PushService(loop: loop, settings: settings, log: log)
            self.service = service
            watch = try CredentialWatch(service, on: loop, log: log) { [weak self] range in
                self?.assumeIsolated { $0.pauses.append(range) }
                return 0
            }
        }

        func begin(isOn: Bool = true) { watch?.start(isOn: isOn) }

        /// Waits until the ``CredentialWatch`` knows, for the given number of apps, whether the provider accepts their
        /// credentials.
        func standings(_ count: Int) async throws -> [String: CredentialStanding] {
            while watch?.standings.count != count { try await loop.pause(.milliseconds(5)) }
            return watch?.standings ?? [:]
        }

        /// Waits 5 ms, so that the loop can do other work.
        func rest() async throws { try await loop.pause(.milliseconds(5)) }

        var known: [String: CredentialStanding] { watch?.standings ?? [:] }

        func close() {
            watch = nil
            service?.close()
            service = nil
        }
    }

    private func with(
        topics: Set<String>? = nil, projects: Set<String>? = nil, clockLead: Duration = .zero,
        changing: (inout PushSettings, TestFolder) throws -> Void = { _, _ in },
        _ body: (Watcher, Providers) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                let certificate = try SelfSignedCertificate(hosts: ["127.0.0.1"])
                try Data(certificate.certificate).write(to: URL(fileURLWithPath: folder.path + "/ca.pem"))
                let providers = Providers(loop)
                let url = try await providers.listen(
                    certificate, topics: topics, projects: projects, clockLead: clockLead)
                var settings = try folder.settings(url)
                settings.apns.caFile = folder.path + "/ca.pem"
                settings.fcm.caFile = folder.path + "/ca.pem"
                try changing(&settings, folder)
                let watcher = Watcher(loop)
                try await watcher.start(settings)
                try await body(watcher, providers)
                await watcher.close()
                await providers.close()
            }
        }
    }

    private func reason(_ standing: CredentialStanding?) -> String {
        switch standing?.verdict {
        case .refused(let reason, _): reason
        case .failed(let reason, _): "failed: \(reason)"
        case .works: "works"
        case .reached: "reached"
        case nil: "untried"
        }
    }

    @Test func `good credentials work, and no push is sent`() async throws {
        try await with { watcher, providers in
            await watcher.begin()
            let known = try await watcher.standings(3)
            #expect(known.mapValues { reason($0) } == ["apns": "works", "apns.dev": "works", "fcm": "works"])
            #expect(await providers.records.isEmpty)
            #expect(await providers.trials.map(\.service) == ["apns", "apns", "fcm"])
            #expect(!watcher.log.lines.contains { $0.contains(" error ") || $0.contains(" warning ") })
        }
    }

    @Test func `a wrong topic is refused, and the log says so once with the cure`() async throws {
        try await with(topics: ["com.example.other"]) { watcher, providers in
            await watcher.begin()
            #expect(reason(try await watcher.standings(3)["apns"]) == "TopicDisallowed")
            // The second round of trials must give the same results as the first round.
            await watcher.begin()
            while await providers.trials.count < 6 { try await watcher.rest() }
            let lines = watcher.log.lines.filter { $0.contains("does not accept our credentials") }
            #expect(lines.count == 2 && lines.allSatisfy { $0.contains("Correct topics") }, "\(lines)")
        }
    }

    @Test func `a wrong key, a wrong project and a wrong clock are named`() async throws {
        try await with(
            projects: ["other"],
            changing: { settings, folder in
                let other = folder.path + "/other.p8"
                try Data(SelfSignedCertificate(hosts: ["x"]).key).write(to: URL(fileURLWithPath: other))
                settings.apns.keyFile = other
            }
        ) { watcher, _ in
            await watcher.begin()
            let known = try await watcher.standings(3)
            #expect(reason(known["apns"]) == "InvalidProviderToken")
            #expect(reason(known["fcm"]).contains("cloudmessaging.messages.create"))
        }
        try await with(clockLead: .seconds(86_400)) { watcher, _ in
            await watcher.begin()
            let known = try await watcher.standings(3)
            #expect(reason(known["apns"]) == "ExpiredProviderToken")
            // The daemon adds the hint about the clock, which Google's own words do not mention.
            #expect(reason(known["fcm"]).contains(": this machine's clock is "))
            #expect(watcher.log.lines.contains { $0.contains("s behind the provider's: timedatectl") })
        }
    }

    @Test func `a provider that is away is asked again, ever more seldom`() async throws {
        try await with(changing: { settings, _ in
            settings.apns.enabled = false
            settings.fcm.tokenEndpoint = "https://127.0.0.1:1/token"
        }) { watcher, _ in
            await watcher.begin()
            #expect(reason(try await watcher.standings(1)["fcm"]).hasPrefix("failed: the token service 127.0.0.1:1"))
            // The test does not wait during the pauses, which take no real time in this test.
            while await watcher.pauses.count < 9 { try await watcher.rest() }
            #expect(await watcher.pauses.prefix(4).map(\.lowerBound) == [1, 45, 90, 180])
            #expect(await watcher.pauses.last?.upperBound == 4500)
            #expect(
                watcher.log.lines.count {
                    $0.contains("a trial of an app's credentials failed: the provider was not reached")
                } == 1)
        }
    }

    @Test func `nothing is tried where that is switched off`() async throws {
        try await with { watcher, providers in
            await watcher.begin()
            _ = try await watcher.standings(3)
            await watcher.begin(isOn: false)
            #expect(await watcher.known.isEmpty)
            #expect(await providers.trials.count == 3)
        }
    }
}
