import Addressing
import Bytes
import ProxyCore
import ProxyPolicy
import Registration
import SIPGrammar
import Synchronization
import Telemetry
import TestSupport
import Testing
import Timekeeping

/// Tests that nobody can guess passwords, and that guessed passwords lock no user out at the user's own address (T8).
@Suite("Wrong passwords over SIP (T8)")
struct WrongPasswordTests {
    private static func host(_ number: UInt32) -> Endpoint { Endpoint(IPAddress(v4: 0xcb00_7100 + number), 5060) }

    private func register(
        _ bench: EngineBench, _ user: String, password: String? = nil, from source: Endpoint, callID: String
    ) -> String? {
        let out = bench.receiveProved(
            bench.registerText(user: user, token: nil, callID: callID, from: source), as: user, password: password,
            from: source)
        _ = bench.commitAll(in: out)
        return story(out + bench.actions).last { !$0.hasPrefix("commit") }.map { String($0.prefix(3)) }
    }

    @Test func `on one nonce, passwords are checked up to the limit`() throws {
        let bench = EngineBench.authenticating()
        let request = bench.registerText()
        let challenge = try #require(sentResponse(bench.receive(request)))
        var statuses: [String: Int] = [:]
        for number in 0..<1_000 {
            let guess = TestDigest.answer(challenge, to: request, as: "bob", password: "guess \(number)")
            let out = bench.receive(guess.replacing("branch=z9hG4bK", with: "branch=z9hG4bKg\(number)"))
            let status = try #require(sentResponse(out))
            statuses["\(status.status)", default: 0] += 1
            if status.status == .serviceUnavailable { #expect(status.frame.contains(.retryAfter)) }
        }
        #expect(statuses == ["401": 10, "503": 990])
        #expect(bench.engine.figures[.loginFailed] == 10 && bench.engine.figures[.loginLimited] == 990)
        // After a thousand wrong passwords from one address, the daemon checks no password from the address, not even
        // the right password.
        let right = TestDigest.answer(challenge, to: request, as: "bob", count: 2)
        #expect(story(bench.receive(right)) == ["503 register > phone"])
        _ = bench.pass(.seconds(61))
        #expect(register(bench, "bob", from: EngineBench.phone, callID: "later") == "200")
    }

    @Test func `calls are counted with REGISTERs`() {
        let bench = EngineBench.authenticating()
        for number in 0..<10 {
            let out = bench.receiveProved(bench.phoneText(callID: "g\(number)"), as: "bob", password: "guess")
            #expect(story(out) == ["407 invite > phone"])
        }
        #expect(story(bench.receiveProved(bench.phoneText(callID: "g"), as: "bob")) == ["503 invite > phone"])
        #expect(register(bench, "bob", from: EngineBench.phone, callID: "r") == "503")
    }

    @Test func `guesses over HTTP count over SIP, and the other way round`() {
        let bench = EngineBench.authenticating()
        let source = EngineBench.phone.address
        for _ in 0..<9 { bench.engine.loginFailed(from: source, for: EngineBench.bob, now: bench.now) }
        #expect(bench.engine.loginWait(from: source, for: EngineBench.bob, now: bench.now) == nil)
        #expect(register(bench, "EngineBench.bob", password: "guess", from: EngineBench.phone, callID: "r") == "401")
        #expect(bench.engine.loginWait(from: source, for: EngineBench.bob, now: bench.now) != nil)
        #expect(register(bench, "eve", from: EngineBench.phone, callID: "e") == "503")
    }

    @Test func `guesses of others do not lock a user out at the phone's address`() {
        let bench = EngineBench.authenticating()
        let home = EngineBench.phone
        #expect(register(bench, "bob", from: home, callID: "home") == "200")
        for number in 1..<40 {
            _ = register(bench, "bob", password: "x", from: Self.host(UInt32(number)), callID: "g\(number)")
        }
        #expect(register(bench, "bob", from: Self.host(99), callID: "abroad") == "503")
        // Wrong passwords for eve from bob's home address must not lock bob out at this address.
        for number in 0..<20 { _ = register(bench, "eve", password: "x", from: home, callID: "e\(number)") }
        #expect(register(bench, "eve", from: home, callID: "e") == "503")
        #expect(register(bench, "bob", from: Endpoint(home.address, 1234), callID: "again") == "200")
    }

    @Test func `a phone is served on its own flow even if others at its address guess its password`() {
        let bench = EngineBench.authenticating()
        let home = EngineBench.phone
        #expect(register(bench, "bob", from: home, callID: "home") == "200")
        let neighbour = Endpoint(home.address, 666)
        var last: String?
        for number in 0..<40 { last = register(bench, "bob", password: "x", from: neighbour, callID: "g\(number)") }
        #expect(last == "503")
        #expect(register(bench, "bob", from: home, callID: "home2") == "200")
    }

    @Test func `datagrams with an invented source lock nobody out`() throws {
        let bench = EngineBench.authenticating()
        let attacker = Self.host(1)
        let request = bench.registerText()
        let challenge = try #require(sentResponse(bench.receive(request, from: attacker)))
        for number in 0..<100 {
            let guess = TestDigest.answer(challenge, to: request, as: "bob", password: "guess \(number)")
            // The guess has the phone's address as its forged source address, but the nonce was sent to the attacker's
            // address.
            let out = bench.receive(guess.replacing("branch=z9hG4bK", with: "branch=z9hG4bKg\(number)"))
            #expect(out.texts.first?.contains("stale=true") == true)
        }
        #expect(bench.engine.figures[.loginFailed] == 0)
        #expect(register(bench, "bob", from: EngineBench.phone, callID: "r") == "200")
        #expect(register(bench, "eve", from: EngineBench.phone, callID: "e") == "200")
    }

    @Test func `a trusted edge is not shut out for its users' wrong passwords`() {
        let bench = EngineBench.authenticating()
        for number in 0..<40 {
            #expect(register(bench, "u\(number)", password: "x", from: EngineBench.pbx, callID: "g\(number)") == "401")
        }
        #expect(register(bench, "bob", from: EngineBench.pbx, callID: "r") == "200")
    }

    // MARK: The log

    @Test func `refused REGISTERs are in the log, with a limit and without passwords`() throws {
        let sink = LineSink()
        let bench = EngineBench(users: TestDigest.users("bob", "eve"), log: sink.log) { $0.authenticates = true }
        func lines() -> [String] { sink.take().filter { $0.contains("REGISTER refused") } }
        let first = bench.receive(bench.registerText())
        #expect(lines().first?.contains("bob@example.net") == true)
        let wrong = TestDigest.answer(
            try #require(sentResponse(first)), to: bench.registerText(), as: "bob", password: "guess")
        bench.receive(wrong)
        let line = try #require(lines().first)
        #expect(line.contains("status=401") && line.contains("wrong user or password") && line.contains("192.0.2.5"))
        #expect(!line.contains("tok1") && !line.contains("response"))
        _ = bench.receiveProved(bench.registerText(callID: "r2"), as: "eve")
        #expect(lines().contains { $0.contains("status=403") })
        _ = bench.receiveProved(bench.registerText(callID: "r3", expires: 5), as: "bob")
        #expect(lines().contains { $0.contains("status=423") })
        for number in 0..<200 {
            bench.receive(wrong.replacing("branch=z9hG4bK", with: "branch=z9hG4bKg\(number)"))
        }
        #expect(lines().count < 20)
        _ = bench.pass(.seconds(11))
        bench.receive(bench.registerText(callID: "r4", cseq: 9))
        _ = bench.receiveProved(bench.registerText(callID: "r5"), as: "eve")
        #expect(lines().contains { $0.contains("suppressed=") })
    }
}

/// A log sink that stores the lines of the log.
final class LineSink: LogSink {
    private let lines = Mutex<[String]>([])

    var log: Log { Log(level: .info, sink: self) { UnixTime(milliseconds: 0) } }

    func write(_ line: [UInt8]) -> Bool {
        lines.withLock { $0.append(String(decoding: line, as: UTF8.self)) }
        return true
    }

    func take() -> [String] {
        lines.withLock { lines in
            defer { lines = [] }
            return lines
        }
    }
}
