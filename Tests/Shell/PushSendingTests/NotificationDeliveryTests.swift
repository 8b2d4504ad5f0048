import Bytes
import LoopTesting
import ProviderTesting
import PushDelivery
import Telemetry
import Testing

/// Tests notifications and calls on one provider without TLS: 32 requests at a time, of which eight are for
/// notifications.
@Suite("Delivery of notifications", .timeLimit(.minutes(10)))
struct NotificationDeliveryTests {
    private func withService(
        reply: @escaping @Sendable (FakeProvider.Request, Int) -> FakeProvider.Reply,
        _ body: (PushBench, FakeProvider) async throws -> Void
    ) async throws {
        try await withFolder { folder in
            try await withLoop { loop in
                let provider = FakeProvider(loop, reply: reply)
                let url = try await provider.listen()
                let bench = PushBench(loop)
                var settings = try folder.settings(url)
                // The time limit is longer than a test takes, even on a busy machine.
                settings.requestTimeout = .seconds(60)
                try await bench.start(settings)
                try await body(bench, provider)
                await bench.close()
                await provider.close()
            }
        }
    }

    @Test func `a call overtakes all notifications except the few in flight`() async throws {
        try await withService(reply: { _, _ in .silence }) { (bench, provider) async throws in
            await bench.notify(1...500, at: token(.apns, "AB"))
            await bench.send(501, to: token(.apns, "CD"), life: .seconds(60))
            var paths: [String] = []
            for _ in 1...9 { paths.append(try await provider.requests.next().path) }
            #expect(paths.count { $0.hasSuffix("00ab") } == 8)
            #expect(paths.contains { $0.hasSuffix("00cd") })
            #expect(await bench.counters[.pushesInFlight] == 9)
            #expect(await bench.counters[.pushQueue] == 492)
        }
    }

    @Test func `all of them arrive`() async throws {
        try await withService(reply: { _, _ in .answer(200) }) { (bench, _) async throws in
            await bench.notify(1...300, at: token(.apns, "AB"))
            var accepted = Set<PushID>()
            for _ in 1...300 {
                let (id, outcome) = try await bench.outcomes.next()
                if outcome.isAccepted { accepted.insert(id) }
            }
            #expect(accepted.count == 300)
            #expect(await bench.notificationRoom == 10_000)
            #expect(await bench.counters[.pushesInFlight] == 0)
        }
    }

    @Test func `notifications that cannot be sent make way for the others`() async throws {
        try await withService(reply: { _, _ in .answer(200) }) { (bench, _) async throws in
            // The service sends no notification to a token for calls.
            let calls = PushToken(
                provider: .apns, param: ByteString("T.com.example.phone.voip"), prid: token(.apns, "AB").prid)
            await bench.notify(1...2000, at: calls)
            await bench.notify(2001...2001, at: token(.apns, "AB"))
            for _ in 1...2000 {
                let outcome = try await bench.outcomes.next().1
                #expect(outcome == .noSuitableToken)
            }
            let (id, outcome) = try await bench.outcomes.next()
            #expect(id == PushID(rawValue: 2001) && outcome == .accepted(nil))
        }
    }

    @Test func `ten thousand notifications at a time leave calls their share`() async throws {
        try await withService(reply: { request, _ in
            request.path.hasSuffix("cd") ? .answer(200) : .silence
        }) { bench, _ in
            await bench.notify(1...10_000, at: token(.apns, "AB"))
            #expect(await bench.notificationRoom == 0)
            await bench.notify(10_001...10_001, at: token(.apns, "AB"))
            let (refused, refusal) = try await bench.outcomes.next()
            #expect(refused == PushID(rawValue: 10_001) && refusal == .retry(after: nil))
            await bench.send(10_002, to: token(.apns, "CD"))
            let (id, outcome) = try await bench.outcomes.next()
            #expect(id == PushID(rawValue: 10_002) && outcome == .accepted(nil))
        }
    }

    @Test func `a withdrawn notification leaves the queue, and one in flight keeps its place`() async throws {
        try await withService(reply: { _, _ in .silence }) { (bench, provider) async throws in
            await bench.notify(1...10, at: token(.apns, "AB"))
            for _ in 1...8 { _ = try await provider.requests.next() }
            await bench.cancel(1)
            await bench.cancel(9)
            // The cancellation removes only notification 9 from the queue, because notification 1 is already in flight.
            #expect(await bench.notificationRoom == 10_000 - 9)
        }
    }
}
