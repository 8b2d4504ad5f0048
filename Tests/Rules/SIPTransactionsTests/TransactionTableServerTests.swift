import Addressing
import Bytes
import Collections
import SIPGrammar
import TestSupport
import Testing
import Timekeeping

@testable import SIPTransactions

@Suite("Server transactions in the table")
struct TransactionTableServerTests {
    private let fixture = TableFixture()

    @Test(arguments: [
        Exchange(
            "it is served once and its response repeated for 32 s", .request("REGISTER", "new"),
            .request("REGISTER", "absorbed"), .respond(200, "send 200"), .request("REGISTER", "absorbed", "send 200"),
            .until(31.99), .request("REGISTER", "absorbed", "send 200"), .until(32.01, "server ended"), .empty,
            .request("REGISTER", "new")),
        Exchange(
            "on a reliable transport it ends with its response", .request("MESSAGE", over: tcp, "new"),
            .respond(200, "send 200", "server ended"), .empty),
        Exchange(
            "when nobody answers it goes when its client has given up", .request("MESSAGE", "new"),
            .until(33, "server ended"), .respond(200), .empty),
        Exchange(
            "a 408 to it is not sent", .request("MESSAGE", "new"), .respond(408), .request("MESSAGE", "absorbed"),
            .until(33, "server ended")),
    ])
    func `a request other than INVITE`(exchange: Exchange) { #expect(exchange.faults == []) }

    @Test func `its response leaves on the flow that it came on`() throws {
        fixture.respond(try fixture.new(TestMessage("MESSAGE"), on: tcp), 200)
        #expect(fixture.lastSent?.flow == tcp)
    }

    @Test(arguments: [
        Exchange(
            "it is held without any timer and its last provisional response repeated", .request("INVITE", "new"),
            .request("INVITE", "absorbed"), .respond(100, "send 100"), .request("INVITE", "absorbed", "send 100"),
            .respond(180, "send 180"), .request("INVITE", "absorbed", "send 180"), .timeless),
        Exchange(
            "a refusal over UDP is repeated until the ACK, whose copies are absorbed", .request("INVITE", "new"),
            // The server transaction sends the response again when timer G fires, at 0.5, 1.5 and 3.5 s.
            .respond(486, "send 486"), .until(4, "3 × send 486"), .request("ACK", "acknowledged"),
            .request("ACK", "acknowledged"), .until(8.99), .request("INVITE", "absorbed"),
            .until(9.01, "server ended"), .empty),
        Exchange(
            "without an ACK timer H ends it and tells", .request("INVITE", over: tcp, "new"),
            .respond(486, "send 486"), .until(33, "server timed out", "server ended"), .empty),
        Exchange(
            "over UDP timer G sends eleven copies in 32 s", .request("INVITE", "new"), .respond(486, "send 486"),
            // The server transaction sends the response again by timer G, at 0.5, 1.5, 3.5, 7.5, 11.5, 15.5, 19.5,
            // 23.5, 27.5 and 31.5 s.
            .until(33, "10 × send 486", "server timed out", "server ended")),
        Exchange(
            "an accepted one passes further 2xx, absorbs the INVITE, and leaves ACKs to the core",
            .request("INVITE", "new"), .respond(180, "send 180"), .respond(200, "send 200"),
            .request("INVITE", "absorbed"), .respond(200, "send 200"), .respond(486), .request("ACK", "for the core"),
            .until(32.01, "server ended"), .empty, .respond(200)),
        Exchange("an ACK that matches none is the core's", .request("ACK", "for the core"), .empty),
        Exchange(
            "an ACK before the final response is absorbed", .request("INVITE", "new"), .request("ACK", "acknowledged"),
            .respond(486, "send 486")),
    ])
    func `an INVITE`(exchange: Exchange) { #expect(exchange.faults == []) }

    @Test func `a CANCEL finds its INVITE and is a transaction of its own`() throws {
        let invite = try fixture.new(TestMessage("INVITE"))
        guard case .cancel(let id, of: invite) = fixture.receive(TestMessage("CANCEL")) else { throw Unexpected() }
        #expect(id != invite)
        fixture.respond(id, 200)
        #expect(fixture.receive(TestMessage("CANCEL")) == .absorbed)
        fixture.respond(invite, 487)
        #expect(fixture.receive(TestMessage("ACK")) == .acknowledged(invite))
        #expect(fixture.outputs() == ["send 200", "send 200", "send 487"])
        fixture.advance(to: .seconds(33))
        #expect(fixture.isEmpty)
    }

    @Test func `the key is branch, sent-by and method, the host in any case`() throws {
        _ = try fixture.new(TestMessage("OPTIONS"))
        _ = try fixture.new(TestMessage("OPTIONS", branch: "z9hG4bKother"))
        _ = try fixture.new(TestMessage("OPTIONS", sentBy: "client.example:5070"))
        _ = try fixture.new(TestMessage("OPTIONS", sentBy: "client.example"))
        _ = try fixture.new(TestMessage("MESSAGE"))
        _ = try fixture.new(TestMessage("BREW"))
        #expect(fixture.receive(TestMessage("BREW")) == .absorbed)
        #expect(fixture.receive(TestMessage("OPTIONS", sentBy: "CLIENT.example:5060")) == .absorbed)
        #expect(fixture.table.serverCount == 6)
    }

    @Test func `a held 100 is sent after 3.5 s, or never`() throws {
        let slow = try fixture.new(TestMessage("MESSAGE", branch: "z9hG4bKslow"))
        let quick = try fixture.new(TestMessage("MESSAGE", branch: "z9hG4bKquick"))
        fixture.respond(slow, 100)
        fixture.respond(quick, 100)
        fixture.advance(to: .seconds(1))
        fixture.respond(quick, 200)
        #expect(fixture.outputs() == ["send 200"])
        fixture.advance(to: .milliseconds(3490))
        #expect(fixture.outputs() == [])
        fixture.advance(to: .milliseconds(3510))
        #expect(fixture.outputs() == ["send 100"])
        #expect(fixture.receive(TestMessage("MESSAGE", branch: "z9hG4bKslow")) == .absorbed)
        #expect(fixture.outputs() == ["send 100"])
    }

    @Test func `a held 100 that is not written yet is asked for when it is due, unless there was an answer`() throws {
        let slow = try fixture.new(TestMessage("MESSAGE", branch: "z9hG4bKslow"))
        let quick = try fixture.new(TestMessage("MESSAGE", branch: "z9hG4bKquick"))
        fixture.willRespond(slow, 100)
        fixture.willRespond(quick, 100)
        fixture.respond(quick, 200)
        #expect(fixture.outputs() == ["send 200"])
        fixture.advance(to: .milliseconds(3490))
        #expect(fixture.receive(TestMessage("MESSAGE", branch: "z9hG4bKslow")) == .absorbed)
        #expect(fixture.outputs() == [])
        fixture.advance(to: .milliseconds(3510))
        #expect(fixture.outputs() == ["100 due"])
        fixture.respond(slow, 100)
        #expect(fixture.outputs() == ["send 100"])
        #expect(fixture.receive(TestMessage("MESSAGE", branch: "z9hG4bKslow")) == .absorbed)
        #expect(fixture.outputs() == ["send 100"])
    }

    @Test func `transactions that only wait for stragglers end together, a little late and never early`() throws {
        let accepted = try fixture.new(TestMessage("INVITE"))
        fixture.advance(to: .milliseconds(10))
        fixture.respond(accepted, 200)
        for (offset, branch) in [(30, "z9hG4bKone"), (50, "z9hG4bKtwo"), (70, "z9hG4bKthree")] {
            fixture.advance(to: .milliseconds(offset))
            fixture.respond(try fixture.new(TestMessage("OPTIONS", branch: branch)), 200)
        }
        fixture.advance(to: .milliseconds(32_069))
        #expect(fixture.table.serverCount == 4)
        #expect(fixture.table.nextDeadline == start + .milliseconds(32_100))
        fixture.advance(to: .milliseconds(32_100))
        #expect(fixture.isEmpty)
    }

    @Test func `a CANCEL without an INVITE is reported as such`() throws {
        _ = try fixture.new(TestMessage("INVITE", branch: "z9hG4bKother"))
        guard case .cancel(_, of: nil) = fixture.receive(TestMessage("CANCEL")) else { throw Unexpected() }
    }

    // MARK: RFC 2543

    private func old(_ method: String, _ change: (inout TestMessage) -> Void = { _ in }) -> TestMessage {
        var message = TestMessage(method)
        message.via = "SIP/2.0/UDP old.example:5060"
        change(&message)
        return message
    }

    @Test func `without a branch the elements of RFC 2543 are compared`() throws {
        let id = try fixture.new(old("INVITE"))
        #expect(fixture.receive(old("INVITE")) == .absorbed)
        _ = try fixture.new(old("INVITE") { $0.callID = "call-2" })
        _ = try fixture.new(old("INVITE") { $0.cseq = "2 INVITE" })
        _ = try fixture.new(old("INVITE") { $0.from = "<sip:alice@example.com>;tag=f2" })
        _ = try fixture.new(old("INVITE") { $0.startLine = "INVITE sip:carol@example.com SIP/2.0" })
        _ = try fixture.new(old("INVITE") { $0.via = "SIP/2.0/UDP old.example:5061" })
        _ = try fixture.new(old("INVITE") { $0.via = "SIP/2.0/UDP old.example:5060;branch=1" })
        _ = try fixture.new(old("INVITE") { $0.via = "SIP/2.0/UDP old.example:5060;branch=z9hG4bK" })
        guard case .cancel(_, of: id) = fixture.receive(old("CANCEL")) else { throw Unexpected() }
        fixture.respond(id, 486)
        let match = fixture.receive(old("ACK") { $0.to += ";tag=ours" })
        #expect(match == .acknowledged(id))
    }

    // MARK: Limits

    @Test func `records are small, since a node may hold hundreds of thousands of calls`() {
        #expect(MemoryLayout<ServerRecord>.stride <= 104)
        #expect(MemoryLayout<ClientRecord>.stride <= 120)
    }

    @Test func `beyond the limit a request is refused, but not the CANCEL of an INVITE`() throws {
        var limits = TransactionLimits()
        limits.serverTransactions = 2
        let fixture = TableFixture(limits: limits)
        let first = try fixture.new(TestMessage("INVITE"))
        _ = try fixture.new(TestMessage("INVITE", branch: "z9hG4bK2"))
        #expect(fixture.receive(TestMessage("INVITE", branch: "z9hG4bK3")) == .overloaded)
        #expect(fixture.receive(TestMessage("CANCEL", branch: "z9hG4bK3")) == .overloaded)
        #expect(fixture.receive(TestMessage("INVITE")) == .absorbed)
        guard case .cancel(_, of: first) = fixture.receive(TestMessage("CANCEL")) else { throw Unexpected() }
        #expect(fixture.table.serverCount == 3)
    }

    @Test func `of too many answered requests the oldest is forgotten`() throws {
        var limits = TransactionLimits()
        limits.completedNonInvite = 3
        let fixture = TableFixture(limits: limits)
        for number in 0..<5 {
            fixture.respond(try fixture.new(TestMessage("REGISTER", branch: "z9hG4bK\(number)")), 200)
        }
        #expect(fixture.outputs().filter { $0 == "server ended" }.count == 2)
        #expect(fixture.table.completed.count == 3)
        #expect(fixture.receive(TestMessage("REGISTER", branch: "z9hG4bK2")) == .absorbed)
        _ = try fixture.new(TestMessage("REGISTER", branch: "z9hG4bK1"))
    }

    @Test func `timer J of each answered request fires in its turn while more are answered`() throws {
        for second in 1...100 {
            for number in 0..<second / 4 {
                fixture.respond(try fixture.new(TestMessage("MESSAGE", branch: "z9hG4bK\(second)-\(number)")), 200)
            }
            _ = fixture.outputs()
            fixture.advance(to: .seconds(second))
            let due = max(second - 31, 0) / 4  // Timer J lasts 32 s, and requests are answered at `second - 1`.
            #expect(fixture.outputs() == Array(repeating: "server ended", count: due))
        }
    }

    @Test func `ids are never given twice, and stale ones do nothing`() throws {
        var seen: Set<ServerTransactionID> = []
        for number in 0..<100 {
            let id = try fixture.new(TestMessage("MESSAGE", branch: "z9hG4bK\(number)"), on: tcp)
            for stale in seen { fixture.respond(stale, 500) }
            fixture.respond(id, 200)
            #expect(seen.insert(id).inserted)
            #expect(fixture.outputs() == ["send 200", "server ended"])
        }
        #expect(fixture.isEmpty)
    }

    @Test func `the index finds every key through growth and removals`() throws {
        var random = SeededGenerator(seed: 99)
        let fixture = TableFixture()
        var live: [Int: ServerTransactionID] = [:]
        for number in 0..<5000 {
            live[number] = try fixture.new(TestMessage("MESSAGE", branch: "z9hG4bK\(number)"), on: tcp)
            if random.next() % 3 > 0, let victim = live.randomElement(using: &random) {
                fixture.respond(victim.value, 200)
                live[victim.key] = nil
            }
        }
        #expect(fixture.table.serverCount == live.count)
        let missing = live.keys.filter {
            fixture.receive(TestMessage("MESSAGE", branch: "z9hG4bK\($0)"), on: tcp) != .absorbed
        }
        #expect(missing.isEmpty)
    }
}
