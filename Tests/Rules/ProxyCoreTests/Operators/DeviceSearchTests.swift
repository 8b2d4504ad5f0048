import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Registration
import Testing

@Suite("Devices by their tokens")
struct DeviceSearchTests {
    private func bench(devices: Int) -> EngineBench {
        let bench = EngineBench()
        for number in 1...devices {
            bench.register(
                user: "u\(number)", token: "device-token-\(number)%3Ax", callID: "r\(number)",
                from: Endpoint(EngineBench.phone.address, UInt16(41_000 + number)))
        }
        bench.register(user: "plain", token: nil, callID: "plain")
        return bench
    }

    private func search(
        _ bench: EngineBench, _ words: [String], of providers: Set<PushProvider> = [.fcm], limit: Int
    ) -> (tokens: [String], steps: Int) {
        var cursor: BindingCursor? = BindingCursor()
        var tokens: [String] = []
        var steps = 0
        while let start = cursor {
            let step = bench.engine.devices(
                of: providers, with: words.map { Array($0.utf8) }, from: start, limit: limit)
            tokens += step.found.map(\.token.prid.string)
            cursor = step.next
            steps += 1
        }
        return (tokens, steps)
    }

    @Test func `a device is found by a part of its token, in a text of any length`() {
        let bench = bench(devices: 50)
        let (tokens, steps) = search(bench, ["TOKEN-7"], limit: 1)
        #expect(tokens == ["device-token-7:x"])
        #expect(steps > 5)
    }

    @Test func `many words are searched for at once, in shorter steps`() {
        let bench = bench(devices: 50)
        let (tokens, steps) = search(bench, ["token-31", "token-32", "token-33", "nobody"], limit: 1)
        #expect(Set(tokens) == ["device-token-31:x", "device-token-32:x", "device-token-33:x"])
        #expect(steps > 16)
    }

    @Test func `without words all devices are read, each once`() {
        let bench = bench(devices: 50)
        let (tokens, steps) = search(bench, [], limit: 7)
        #expect(tokens.count == 50 && Set(tokens).count == 50)
        #expect(steps > 6)
    }

    @Test func `devices of other providers are passed over`() {
        let bench = bench(devices: 50)
        let (tokens, steps) = search(bench, ["token-7"], of: [.apns], limit: 1)
        #expect(tokens.isEmpty)
        #expect(steps == 1)
    }

    @Test func `a device is there until it has gone`() throws {
        let bench = bench(devices: 1)
        let found = try #require(
            bench.engine.devices(of: [.fcm], with: [], from: BindingCursor(), limit: 1).found.first)
        #expect(bench.engine.device(found.id, now: bench.now) == found)
        #expect(bench.engine.isKnown(found.id))
        bench.register(
            user: "u1", token: "device-token-1%3Ax", callID: "r1", cseq: 2,
            from: Endpoint(EngineBench.phone.address, 41_001), expires: 0)
        #expect(bench.engine.device(found.id, now: bench.now) == nil)
        #expect(!bench.engine.isKnown(found.id))
    }
}
