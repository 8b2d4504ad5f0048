import Addressing
import ProxyCore
import ProxyPolicy
import Testing

/// Tests on which connections the engine reports an accepted REGISTER, so that the shell treats these connections as
/// authenticated (T17).
@Suite("Proved flows")
struct ProvedFlowTests {
    private let stream = Flow(transport: .tcp, listener: 1, connection: 7, remote: EngineBench.phone)

    private func proved(_ actions: [ProxyAction]) -> [Flow] {
        actions.compactMap { if case .flowProved(let flow, _) = $0 { flow } else { nil } }
    }

    @Test func `an accepted REGISTER proves its connection if no passwords are used`() {
        let bench = EngineBench()
        let first = bench.receive(bench.registerText(), on: stream)
        #expect(proved(first).isEmpty, "before it is on the disk")
        #expect(proved(bench.commitAll(in: first)) == [stream])
    }

    @Test func `a REGISTER that is challenged or refused proves nothing, and neither does a call`() {
        let digest = EngineBench { $0.authenticates = true }
        #expect(proved(digest.receive(digest.registerText(), on: stream)).isEmpty)
        let open = EngineBench()
        #expect(proved(open.receive(open.registerText(expires: 1), on: stream)).isEmpty)
        #expect(proved(open.receive(open.inviteText(), on: stream)).isEmpty)
    }

    @Test func `a datagram has no connection to prove`() {
        let bench = EngineBench()
        #expect(proved(bench.register()).isEmpty)
    }

    @Test func `a password names the account, and a contact without one names none`() throws {
        func account(_ actions: [ProxyAction]) -> [Int?] {
            actions.compactMap { if case .flowProved(_, let account) = $0 { account } else { nil } }
        }
        let bench = EngineBench.authenticating()
        func proof(_ user: String, _ method: String, number: Int) throws -> Int? {
            let text =
                method == "REGISTER"
                ? bench.registerText(user: user, callID: "r\(number)")
                : bench.phoneText(method, from: "sip:\(user)@example.net", callID: "p\(number)")
            let challenge = try #require(sentResponse(bench.receive(text, on: stream)))
            return try #require(
                account(bench.receive(TestDigest.answer(challenge, to: text, as: user), on: stream)).first)
        }
        let bob = try #require(try proof("bob", "REGISTER", number: 1))
        #expect(try proof("bob", "INVITE", number: 2) == bob)
        let eve = try #require(try proof("eve", "REGISTER", number: 3))
        #expect(eve != bob)
        let open = EngineBench()
        #expect(account(open.commitAll(in: open.receive(open.registerText(), on: stream))) == [nil])
    }
}
