import Addressing
import Bytes
import SIPGrammar
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

@Suite("Client transactions in the table")
struct TransactionTableClientTests {
    private let fixture = TableFixture()

    // MARK: Via branches

    @Test func `a branch leads back to its loop hash, written in either case`() throws {
        let id = try fixture.reserve()
        for hash: UInt64 in [0, 1, 0x0123_4567_89ab_cdef, .max] {
            let branch = fixture.table.branchKey.branch(for: id, loopHash: hash)
            #expect(branch.count == 41 && branch.hasPrefix("z9hG4bK"))
            #expect(fixture.table.branchKey.loopHash(inBranch: branch) == hash)
            #expect(fixture.table.branchKey.loopHash(inBranch: ByteString(branch.string.uppercased())) == hash)
        }
    }

    @Test func `a branch of another process, or one with any change, is not accepted`() throws {
        let id = try fixture.reserve()
        let branch = fixture.table.branchKey.branch(for: id, loopHash: 77)
        #expect(BranchKey(1, 3).loopHash(inBranch: branch) == nil)
        for place in 0..<branch.count {
            for replacement in Set("0123456789abcdefghijklmnopqrstuvwz~\u{0}".utf8).subtracting([
                branch[place].asciiLowercased
            ]) {
                var bytes = branch.array
                bytes[place] = replacement
                #expect(fixture.table.branchKey.loopHash(inBranch: ByteString(bytes)) == nil)
            }
        }
        #expect(fixture.table.branchKey.loopHash(inBranch: branch[0..<40]) == nil)
        #expect(fixture.table.branchKey.loopHash(inBranch: ByteString("z9hG4bK")) == nil)
    }

    // MARK: Requests other than INVITE

    @Test(arguments: [
        Exchange(
            "over UDP it is sent eleven times, then timed out", .send("MESSAGE", "send MESSAGE"),
            .until(33, "10 × send MESSAGE", "client timed out", "client ended"), .empty),
        Exchange(
            "its final response is told once", .send("MESSAGE", "send MESSAGE"), .response(100, "told 100"),
            .response(200, "told 200"), .response(200), .until(5.01, "client ended"), .empty, .response(200, "stray")),
        Exchange(
            "on a reliable transport it is sent once and ends with its response",
            .send("BREW", over: tcp, "send BREW"), .until(30), .response(404, "told 404", "client ended"), .empty),
        Exchange("it cannot be cancelled", .send("MESSAGE", "send MESSAGE"), .response(100, "told 100"), .cancel()),
    ])
    func `a request other than INVITE`(exchange: Exchange) { #expect(exchange.faults == []) }

    // MARK: Sources of answers

    @Test func `the peer of an INVITE may also answer its CANCEL`() throws {
        let (id, branch) = try fixture.send("INVITE", on: tcp)
        fixture.receive(180, branch, "INVITE")
        fixture.cancel(id)
        let answer = TestMessage(status: 200, branch: branch, method: "CANCEL").response
        let found = fixture.table.client(of: answer)
        let match = try #require(found)
        let flow = fixture.table.flow(of: match)
        #expect(match.client == id && flow == tcp)
        let next = tcp.on(connection: 8)
        let elsewhere = Flow(
            transport: .tcp, listener: 1, connection: 9, remote: Endpoint(IPAddress(v4: 0x0a00_0003), 5060))
        func accepts(_ flow: Flow) -> Bool {
            fixture.table.accepts(responseFrom: flow, to: match, by: .unknown)
        }
        func wasLost() -> Bool { fixture.table.wasLost(id) }
        #expect(accepts(tcp) && !accepts(next) && !accepts(elsewhere) && !wasLost())
        fixture.table.connectionEnded(of: id)
        #expect(accepts(next) && !accepts(elsewhere) && wasLost())
        fixture.table.calledAnew(id, by: elsewhere)
        #expect(accepts(elsewhere))
    }

    // MARK: INVITE

    @Test(arguments: [
        Exchange(
            "over UDP it is sent seven times, then timed out", .send("INVITE", "send INVITE"),
            // The client transaction sends the INVITE again at 0.5, 1.5, 3.5, 7.5, 15.5 and 31.5 s (timer A).
            .until(33, "6 × send INVITE", "client timed out", "client ended"), .empty),
        Exchange(
            "that it rings for too long is told once; its end is the core's decision", .send("INVITE", "send INVITE"),
            .response(100, "told 100"), .until(100), .response(180, "told 180"), .until(289),
            .until(7200, "client rang too long"), .cancel("send CANCEL")),
        Exchange(
            "a refusal on a reliable transport is acknowledged and the transaction ends",
            .send("INVITE", over: tcp, "send INVITE"), .response(404, "send ACK", "told 404", "client ended"), .empty),
        Exchange(
            "every 2xx of every fork goes up, and no ACK is made for it", .send("INVITE", "send INVITE"),
            .response(200, tag: "fork1", "told 200"), .response(200, tag: "fork1", "told 200"),
            .response(200, tag: "fork2", "told 200"), .response(486, tag: "fork3"), .until(31.99),
            .response(200, tag: "fork1", "told 200"), .until(32.01, "client ended"),
            .response(200, tag: "fork1", "stray")),
    ])
    func `an INVITE`(exchange: Exchange) { #expect(exchange.faults == []) }

    @Test func `a refusal is acknowledged by a request made from the INVITE as it was sent`() throws {
        let (_, branch) = try fixture.send("INVITE")
        fixture.receive(180, branch, "INVITE")
        fixture.receive(486, branch, "INVITE", toTag: "bob")
        let ack = try #require(fixture.lastSent?.text)
        #expect(fixture.outputs() == ["send INVITE", "told 180", "send ACK", "told 486"])
        #expect(ack.hasPrefix("ACK sip:bob@example.com SIP/2.0\r\n"))
        for row in [
            "Via: SIP/2.0/UDP client.example:5060;branch=\(branch)", "Route: <sip:edge.example.com;lr>",
            "From: <sip:alice@example.com>;tag=f1", "To: <sip:bob@example.com>;tag=bob", "Call-ID: call-1",
            "CSeq: 1 ACK",
        ] {
            #expect(ack.contains("\r\n\(row)\r\n"), "\(row)")
        }
        #expect(!ack.contains("body"))
        fixture.receive(486, branch, "INVITE", toTag: "bob")
        #expect(fixture.lastSent?.text == ack)
        #expect(fixture.outputs() == ["send ACK"])
        fixture.advance(to: .milliseconds(32_010))
        #expect(fixture.outputs() == ["client ended"])
        #expect(fixture.isEmpty)
    }

    // MARK: CANCEL

    @Test func `a CANCEL before any response waits for a provisional one`() throws {
        let (id, branch) = try fixture.send("INVITE")
        fixture.cancel(id, reasons: ["SIP;cause=200"])
        fixture.advance(to: .seconds(1))
        #expect(fixture.outputs() == ["send INVITE", "send INVITE"])
        fixture.receive(100, branch, "INVITE")
        let sent = try #require(fixture.lastSent?.text)
        #expect(sent.contains("branch=\(branch)\r\n") && sent.contains("\r\nCSeq: 1 CANCEL\r\n"))
        #expect(sent.contains("\r\nReason: SIP;cause=200\r\n"))
        #expect(fixture.outputs() == ["told 100", "send CANCEL"])
        fixture.receive(200, branch, "CANCEL")
        fixture.receive(487, branch, "INVITE")
        fixture.receive(200, branch, "CANCEL")
        #expect(fixture.outputs() == ["send ACK", "told 487"])
        fixture.advance(to: .seconds(34))
        #expect(fixture.outputs() == ["client ended"])
        #expect(fixture.isEmpty)
    }

    @Test(arguments: [
        Exchange(
            "after a provisional response it is repeated like any request", .send("INVITE", "send INVITE"),
            .response(180, "told 180"), .cancel("send CANCEL"), .cancel(), .until(2, "2 × send CANCEL"),
            .cancelAnswered(), .until(31), .until(33, "client timed out", "client ended"), .empty),
        Exchange(
            "one that waited gives its INVITE 64*T1 like any other", .send("INVITE", "send INVITE"), .cancel(),
            .response(180, "told 180", "send CANCEL"), .cancelAnswered(),
            .until(33, "client timed out", "client ended"), .empty),
        Exchange(
            "there is none after a 2xx", .send("INVITE", "send INVITE"), .cancel(), .response(200, "told 200"),
            .cancel()),
        Exchange(
            "there is none after a refusal", .send("INVITE", "send INVITE"), .response(486, "send ACK", "told 486"),
            .cancel()),
        Exchange(
            "on a reliable transport its answer finds it after the INVITE has ended",
            .send("INVITE", over: tcp, "send INVITE"), .response(180, "told 180"), .cancel("send CANCEL"),
            .response(487, "send ACK", "told 487", "client ended"), .cancelAnswered(), .empty),
    ])
    func `a CANCEL`(exchange: Exchange) { #expect(exchange.faults == []) }

    // MARK: Unmatched responses, failures, limits

    @Test func `a response that matches nothing is dropped and counted`() throws {
        let (_, branch) = try fixture.send("INVITE")
        _ = fixture.outputs()
        fixture.receive(200, "z9hG4bKforeign", "INVITE")
        fixture.receive(200, branch, "BYE")
        fixture.receive(200, branch, "CANCEL")
        let reserved = try fixture.reserve()
        fixture.receive(200, fixture.table.branchKey.branch(for: reserved, loopHash: 0).string, "INVITE")
        var unbranched = TestMessage(status: 200, branch: branch, method: "INVITE")
        unbranched.via = "SIP/2.0/UDP proxy.example:5060"
        var out: [TransactionOutput] = []
        fixture.table.responseReceived(unbranched.response, now: start, into: &out)
        #expect(out.count == 1)
        #expect(fixture.outputs() == ["stray", "stray", "stray", "stray"])
    }

    @Test func `a closed connection fails its own transactions, and no others`() throws {
        let other = Flow(transport: .tcp, listener: 1, connection: 8, remote: tcp.remote)
        _ = try fixture.send("MESSAGE", on: tcp)
        let (ringing, ringingBranch) = try fixture.send("INVITE", on: tcp)
        fixture.receive(180, ringingBranch, "INVITE")
        fixture.cancel(ringing)
        let (_, answered) = try fixture.send("INVITE", on: tcp)
        fixture.receive(200, answered, "INVITE")
        _ = try fixture.send("MESSAGE", on: other)
        _ = fixture.outputs()
        fixture.transportFailed(on: tcp)
        #expect(fixture.outputs().sorted() == ["client ended", "client ended", "client failed", "client failed"])
        #expect(fixture.table.clientCount == 2)
        fixture.transportFailed(on: other)
        #expect(fixture.outputs() == ["client failed", "client ended"])
        fixture.advance(to: .seconds(33))
        #expect(fixture.isEmpty)
    }

    @Test(arguments: UInt64(1)...10)
    func `a failing flow ends exactly its own transactions, whatever happened before`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let one = Endpoint(IPAddress(v4: 0x0a00_0000), 5060)
        let two = Endpoint(IPAddress(v4: 0x0a00_0000), 5061)
        let flows = [
            Flow(transport: .tcp, listener: 0, connection: 1, remote: one),
            Flow(transport: .tcp, listener: 0, connection: 2, remote: one),
            Flow(transport: .udp, listener: 0, connection: 0, remote: one),
            Flow(transport: .udp, listener: 0, connection: 0, remote: two),
        ]
        func failures() -> Int { fixture.outputs().filter { $0 == "client failed" }.count }
        var live: [(flow: Int, id: ClientTransactionID)] = []
        for _ in 0..<400 {
            let flow = Int(random.next() % 4)
            switch random.next() % 20 {
            case 0:
                fixture.transportFailed(on: flows[flow])
                #expect(failures() == live.filter { $0.flow == flow }.count)
                live.removeAll { $0.flow == flow }
            case 1...8 where !live.isEmpty:
                fixture.transportFailed(live.remove(at: Int(random.next() % UInt64(live.count))).id)
            default: live.append((flow, try fixture.send("MESSAGE", on: flows[flow]).id))
            }
            _ = fixture.outputs()
            #expect(fixture.table.clientCount == live.count)
        }
    }

    @Test func `one transaction can fail alone`() throws {
        let (id, _) = try fixture.send("INVITE")
        _ = try fixture.send("INVITE")
        fixture.transportFailed(id)
        fixture.transportFailed(id)
        #expect(fixture.outputs() == ["send INVITE", "send INVITE", "client failed", "client ended"])
    }

    @Test func `the number of client transactions is limited, and a discarded one makes room`() throws {
        var limits = TransactionLimits()
        limits.clientTransactions = 1
        let fixture = TableFixture(limits: limits)
        let id = try fixture.reserve()
        #expect(fixture.table.makeClientTransaction() == nil)
        fixture.table.discard(id)
        let (next, branch) = try fixture.send("INVITE")
        #expect(next != id)
        fixture.table.discard(next)
        fixture.receive(180, branch, "INVITE")
        fixture.cancel(next)  // The table's limit leaves no room for the CANCEL.
        #expect(fixture.outputs() == ["send INVITE", "told 180", "send CANCEL"])
    }

    @Test func `starting twice sends once`() throws {
        let (id, branch) = try fixture.send("MESSAGE")
        var out: [TransactionOutput] = []
        let message = TestMessage("MESSAGE", branch: branch)
        fixture.table.start(id, request: message.outgoing, on: udp, now: start, into: &out)
        #expect(out.isEmpty)
    }
}
