import Addressing
import Bytes
import Crypto
import Foundation
import LoopTesting
import ProviderTesting
import PushDelivery
import PushSandbox
import Reactor
import Testing
import Timekeeping

private let phone = String(repeating: "0a", count: 32)

@Suite("Push service over HTTP/2 and TLS", .timeLimit(.minutes(10)))
struct PushOverTLSTests {
    @Test func `providers that check as Apple and Google do take our pushes`() async throws {
        try await withProviders { (bench, providers) async throws in
            let apple = PushToken(
                provider: .apns, param: ByteString("T.com.example.phone.voip&remote"),
                prid: ByteString("\(phone):voip&\(phone):remote"))
            await bench.send(1, to: apple)
            await bench.send(2, to: apple, .missedCall)
            await bench.send(3, to: token(.fcm, "t:APA91b"))
            await bench.send(4, to: token(.fcm, "t:APA91b"), .missedCall)
            for _ in 1...4 { #expect(try await bench.outcomes.next().1.isAccepted) }
            let records = await providers.records
            #expect(records.count == 4)
            #expect(records.allSatisfy { $0.version == "h2" && $0.status == 200 })
            #expect(records.filter { $0.type == "invite" }.count == 2)
        }
    }

    @Test func `pushes share connections and credentials`() async throws {
        try await withProviders { (bench, providers) async throws in
            await bench.send(1, to: token(.apns, phone))
            _ = try await bench.outcomes.next()
            await bench.send(2...200, to: token(.apns, phone))
            for _ in 2...200 { #expect(try await bench.outcomes.next().1.isAccepted) }
            let records = await providers.records
            #expect(Set(records.map(\.connection)).count == 1)
            #expect(Set(records.map(\.credential)).count == 1)
        }
    }

    @Test(arguments: [
        (#"{"status":503,"times":2}"#, PushOutcome.accepted(nil)),
        (#"{"status":429,"reason":"TooManyRequests","times":1}"#, .accepted(nil)),
        (#"{"status":200,"action":"goaway","times":1}"#, .accepted(nil)),
        (#"{"status":200,"action":"reset","times":1}"#, .accepted(nil)),
        (
            #"{"status":410,"reason":"Unregistered","timestamp":1623753691000}"#,
            .tokenDead(since: UnixTime(seconds: 1_623_753_691))
        ),
        (#"{"status":403,"reason":"InvalidProviderToken"}"#, .credentialsRefused("InvalidProviderToken")),
    ])
    func `each error of Apple has its consequence`(plan: String, expected: PushOutcome) async throws {
        try await withProviders(plans: [phone: plan]) { (bench, _) async throws in
            await bench.send(1, to: token(.apns, phone))
            let outcome = try await bench.outcomes.next().1
            if expected.isAccepted { #expect(outcome.isAccepted) } else { #expect(outcome == expected) }
        }
    }

    @Test func `a provider with a foreign certificate gets nothing`() async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                let theirs = try SelfSignedCertificate(hosts: ["127.0.0.1"])
                let ours = try SelfSignedCertificate(hosts: ["127.0.0.1"])
                try Data(ours.certificate).write(to: URL(fileURLWithPath: folder.path + "/ca.pem"))
                let providers = Providers(loop)
                var settings = try folder.settings(try await providers.listen(theirs, plans: [:]))
                settings.apns.caFile = folder.path + "/ca.pem"
                let bench = PushBench(loop)
                try await bench.start(settings)
                await bench.send(1, to: token(.apns, phone))
                guard case .noConnection(let words) = try await bench.outcomes.next().1 else {
                    return #expect(Bool(false), "an untrusted certificate is no wrong key")
                }
                let server = try #require(settings.apns.endpoint?.dropFirst("https://".count))
                #expect(words.hasPrefix("\(server): the TLS handshake failed: certificate not trusted: "), "\(words)")
                #expect(await bench.report("apns").refusal == words)
                #expect(await bench.report("apns").credentialsRefused == 0)
                #expect(await providers.records.isEmpty)
                await bench.close()
                await providers.close()
            }
        }
    }
}
