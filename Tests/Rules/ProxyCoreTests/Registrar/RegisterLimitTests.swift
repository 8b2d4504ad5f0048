import Addressing
import ProxyCore
import ProxyPolicy
import Telemetry
import TestSupport
import Testing

@Suite("REGISTERs of one source (T17.6)")
struct RegisterLimitTests {
    private static func host(_ number: UInt32) -> Endpoint { Endpoint(IPAddress(v4: 0xcb00_7100 + number), 5060) }

    /// Sends REGISTERs without a password, and counts the statuses of their responses.
    private func ask(_ bench: EngineBench, _ count: Int, from source: Endpoint) -> [String: Int] {
        var statuses: [String: Int] = [:]
        for number in 0..<count {
            let out = bench.receive(
                bench.registerText(user: "bob", callID: "q\(number)", from: source), from: source)
            statuses[story(out).first.map { String($0.prefix(3)) } ?? "", default: 0] += 1
        }
        return statuses
    }

    @Test func `requests without a password are refused beyond their share, and others are not`() {
        let bench = EngineBench.authenticating { $0.limits.registersPerSource = 8 }
        // The limit allows two REGISTERs a second, and bursts of twenty.
        #expect(ask(bench, 50, from: Self.host(1)) == ["401": 20, "503": 30])
        #expect(bench.engine.figures[.registerLimited] == 30)
        #expect(ask(bench, 1, from: Self.host(2)) == ["401": 1])
        #expect(ask(bench, 50, from: EngineBench.pbx) == ["401": 50])
        _ = bench.pass(.seconds(1))
        #expect(ask(bench, 50, from: Self.host(1)) == ["401": 2, "503": 48])
    }

    @Test func `a client that shows a password is served while others at that address are not`() throws {
        let bench = EngineBench.authenticating { $0.limits.registersPerSource = 8 }
        let source = Self.host(1)
        let request = bench.registerText(user: "bob", callID: "r", from: source)
        let challenge = try #require(sentResponse(bench.receive(request, from: source)))
        #expect(ask(bench, 50, from: source)["503"] == 31)
        let proved = TestDigest.answer(challenge, to: request, as: "bob")
        let out = bench.receive(proved, from: source)
        #expect(story(out + bench.commitAll(in: out)).contains("200 register > \(source)"))
        // The limit counts a phone with a wrong password as unauthenticated.
        let wrong = TestDigest.answer(challenge, to: request, as: "bob", password: "guess", count: 2)
            .replacing("branch=z9hG4bK", with: "branch=z9hG4bKw")
        #expect(story(bench.receive(wrong, from: source)) == ["503 register > \(source)"])
    }

    @Test func `zero is no limit`() {
        let bench = EngineBench.authenticating { $0.limits.registersPerSource = 0 }
        #expect(ask(bench, 500, from: Self.host(1)) == ["401": 500])
    }
}
