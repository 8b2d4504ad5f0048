import Bytes
import Crypto
import Foundation
import JSON
import LoopTesting
import ProviderTesting
import PushDelivery
import PushSandbox
import Reactor
import Testing
import Timekeeping

private func apple(_ number: Int, param: String = "T.com.example.phone") -> PushToken {
    let hex = String(number, radix: 16)
    return PushToken(
        provider: .apns, param: ByteString(param),
        prid: ByteString(String(repeating: "0", count: 64 - hex.utf8.count) + hex))
}

@Suite("Push service when providers fail, over HTTP/2 and TLS", .timeLimit(.minutes(10)))
struct PushFaultTests {
    @Test(arguments: ["goaway", "reset"])
    func `no push is lost or doubled when connections end under load`(fault: String) async throws {
        let faulty = (1...10).map { $0 * 37 }
        let plans = Dictionary(
            uniqueKeysWithValues: faulty.map { (apple($0).prid.string, #"{"action":"\#(fault)","times":1}"#) })
        try await withProviders(plans: plans) { (bench, providers) async throws in
            for number in 1...400 { await bench.send(UInt64(number), to: apple(number)) }
            for _ in 1...400 { #expect(try await bench.outcomes.next().1.isAccepted) }
            let accepted = await providers.records.filter { $0.status == 200 }
            #expect(Set(accepted.map(\.token)).count == 400)
            // A push that GOAWAY refuses was certainly not processed, but a push on a broken connection may have been.
            // The service sends a push again with the same id, so that Apple shows the push once.
            if fault == "goaway" { #expect(accepted.count == 400) }
            #expect(Set(accepted.map { "\($0.token) \($0.headers["apns-id"] ?? "")" }).count == 400)
        }
    }

    @Test func `apps with one key share its token, others have their own`() async throws {
        try await withProviders(changing: { settings in
            var second = settings.apns
            second.topics = ["com.example.second"]
            var third = settings.apns
            third.topics = ["com.example.third"]
            third.keyID = "XYZ123DEFG"
            settings.apns.apps = ["second": second, "third": third]
        }) { (bench, providers) async throws in
            for (number, app) in ["phone", "second", "third", "second"].enumerated() {
                await bench.send(UInt64(number), to: apple(number + 1, param: "T.com.example.\(app)"))
                #expect(try await bench.outcomes.next().1.isAccepted)
            }
            let records = await providers.records
            #expect(
                records.map { $0.headers["apns-topic"] }
                    == ["phone", "second", "third", "second"].map { "com.example.\($0)" })
            #expect(records[0].credential == records[1].credential)
            #expect(records[0].credential != records[2].credential)
            // Apps do not share their connections, because Apple accepts only one team on a connection.
            #expect(Set(records.map(\.connection)).count == 3)
            #expect(records[1].connection == records[3].connection)
        }
    }

    @Test func `an app whose provider is slow does not delay another`() async throws {
        let slow = Dictionary(
            uniqueKeysWithValues: (1...50).map { (apple($0).prid.string, #"{"delay_ms":60000}"#) })
        try await withProviders(
            plans: slow,
            changing: { settings in
                var second = settings.apns
                second.topics = ["com.example.second"]
                second.limits.requests = 10
                settings.apns.apps = ["second": second]
            }
        ) { (bench, _) async throws in
            // The slow app has more waiting pushes than it may have in flight.
            for number in 1...50 {
                await bench.send(UInt64(number), to: apple(number, param: "T.com.example.second"))
            }
            for number in 1001...1100 {
                await bench.send(UInt64(number), to: apple(number))
                var outcome = try await bench.outcomes.next()
                // On a busy machine, the time of the slow app's pushes is over before the test ends.
                while outcome.0.rawValue <= 50 { outcome = try await bench.outcomes.next() }
                #expect(outcome.0.rawValue == UInt64(number))
                #expect(outcome.1.isAccepted)
            }
        }
    }

    /// Tests invalid tokens, which old versions stored without checking, and which are sent to no provider.
    @Test(arguments: [
        "/topics/all", #"quo"te"#, "line\r\nsmuggled: yes", "%0d%0a", "a/b/../c", "{{token}}", "\u{0}\u{1}",
        "\u{1F4DE}",
    ])
    func `a token that Google or Apple cannot have made is not sent`(text: String) async throws {
        try await withProviders { (bench, providers) async throws in
            await bench.send(1, to: token(.fcm, text))
            await bench.send(2, to: PushToken(provider: .apns, param: .empty, prid: ByteString(text)))
            await bench.send(3, to: token(.fcm, String(repeating: "x", count: 4096)))
            #expect(try await bench.outcomes.next().1 == .retry(after: nil))
            #expect(try await bench.outcomes.next().1 == .retry(after: nil))
            #expect(try await bench.outcomes.next().1.isAccepted)
            #expect(await providers.records.map(\.token.utf8.count) == [4096])
        }
    }

    @Test func `a quota that is used up is waited for as long as the provider says`() async throws {
        let plan = #"{"status":429,"reason":"QUOTA_EXCEEDED","retry_after":1,"times":1}"#
        try await withProviders(plans: ["T": plan]) { (bench, providers) async throws in
            await bench.send(1, to: token(.fcm, "T"))
            #expect(try await bench.outcomes.next().1.isAccepted)
            let times = await providers.records.map(\.time)
            try #require(times.count == 2)
            #expect(times[1] - times[0] >= 1000)
        }
    }

    @Test func `a quota that lasts longer than the call ends the push at once`() async throws {
        let plan = #"{"status":429,"reason":"QUOTA_EXCEEDED","retry_after":60}"#
        try await withProviders(plans: ["T": plan]) { (bench, providers) async throws in
            await bench.send(1, to: token(.fcm, "T"))
            #expect(try await bench.outcomes.next().1 == .retry(after: .seconds(60)))
            #expect(await providers.records.count == 1)
        }
    }

    @Test func `connections are opened ahead of the first push`() async throws {
        try await withProviders { (bench, providers) async throws in
            await bench.keepReady()
            // The service opens four connections: to Apple's two environments, to Firebase, and to the token service of
            // Firebase.
            while await providers.connectionCount < 4 { await Task.yield() }
            await bench.send(1, to: apple(1))
            #expect(try await bench.outcomes.next().1.isAccepted)
            #expect(await providers.connectionCount == 4)
        }
    }

    @Test(arguments: [true, false])
    func `an app with a certificate shows it, and sends no token`(showsIt: Bool) async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                let server = try SelfSignedCertificate(hosts: ["127.0.0.1"])
                let app = try SelfSignedCertificate(hosts: ["com.example.phone"])
                for (name, bytes) in [
                    ("ca", server.certificate), ("cert", app.certificate), ("cert-key", app.key),
                ] {
                    try Data(bytes).write(to: URL(fileURLWithPath: "\(folder.path)/\(name).pem"))
                }
                let providers = Providers(loop)
                var settings = try folder.settings(try await providers.listen(server, apps: app))
                settings.fcm.enabled = false
                settings.apns.caFile = folder.path + "/ca.pem"
                settings.apns.keyFile = nil
                settings.apns.certFile = showsIt ? folder.path + "/cert.pem" : nil
                settings.apns.certKeyFile = showsIt ? folder.path + "/cert-key.pem" : nil
                let bench = PushBench(loop)
                try await bench.start(settings)
                await bench.send(1, to: apple(1), life: .seconds(1))
                let outcome = try await bench.outcomes.next().1
                // The sandbox asks every client for an authorization token, so its complaint shows that the TLS
                // handshake succeeded.
                #expect((outcome == .credentialsRefused("MissingProviderToken")) == showsIt)
                #expect(await providers.records.count == (showsIt ? 1 : 0))
                await bench.close()
                await providers.close()
            }
        }
    }
}
