@testable import Calling
import ProxyPolicy
import Routing
import Addressing
import Bytes
import Collections
import Registration
import SIPGrammar
import SIPTransactions
import TestSupport
import Testing
import Timekeeping

@Suite("Calls, without an engine")
struct CallsTests {
    private let scene = MachineScene()
    private let devices = (1...2).map(DeviceID.init(rawValue:))
    private let server = ServerTransactionID(rawValue: 1)

    @Test func `a call is found by its number, its transaction and its identity`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let userCall = scene.offer()
        let call = calls.begin(
            try MachineScene.invite(), server, branches: devices.map(ForkBranch.init), purpose: .userCall(userCall),
            parties: HeldShares.Parties(callee: MachineScene.bob.shareNumber))
        #expect(calls[call.id] === call)
        #expect(calls.call(of: server) === call)
        #expect(calls.isOffered(userCall.key) && calls.offered == 1)
        #expect(calls.shares[callee: MachineScene.bob.shareNumber].calls == 1)
        #expect(calls.bytes == call.request.count && calls.bytes > 0)
    }

    @Test
    func `after the final response its user can be called again and its bytes are free; the call stays for its ACK`()
        throws
    {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let call = calls.begin(
            try MachineScene.invite(), server, branches: devices.map(ForkBranch.init), purpose: .userCall(scene.offer())
        )
        _ = call.fork.cancelReceived()
        calls.finish(call)
        #expect(!calls.isOffered(scene.offer().key) && calls.bytes == 0)
        #expect(calls[call.id] === call && !call.isForgotten)
        calls.serverEnded(server)
        #expect(calls[call.id] == nil && call.isForgotten && calls.count == 0)
    }

    @Test func `the requests of the last thousand calls are kept as they were read, until the call is over`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let first = calls.begin(
            try MachineScene.invite("c0"), server, branches: [], purpose: .userCall(scene.offer("c0")))
        let over = calls.begin(try MachineScene.invite("c1"), nil, branches: [], purpose: .userCall(scene.offer("c1")))
        #expect(first.recent?.callID == ByteString("c0") && over.recent != nil)
        _ = over.fork.cancelReceived()
        calls.finish(over)
        #expect(over.recent == nil && over.isForgotten)
        // The new call reuses the table slot of an ended call, and must not be taken for the ended call.
        let next = calls.begin(try MachineScene.invite("c2"), nil, branches: [], purpose: .userCall(scene.offer("c2")))
        #expect(next.place == over.place)
        for number in 3..<1025 {
            let name = "c\(number)"
            _ = calls.begin(try MachineScene.invite(name), nil, branches: [], purpose: .userCall(scene.offer(name)))
        }
        #expect(first.recent == nil && !first.request.isEmpty)
        #expect(next.recent?.callID == ByteString("c2"))
        let name = "c1025"
        _ = calls.begin(try MachineScene.invite(name), nil, branches: [], purpose: .userCall(scene.offer(name)))
        #expect(next.recent?.callID == ByteString("c2"))
    }

    @Test func `the bucket hears of each device that knows, of the end, and of an answer, each once`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let call = calls.begin(
            try MachineScene.invite(), server, branches: devices.map(ForkBranch.init), purpose: .userCall(scene.offer())
        )
        func news() -> String {
            switch call.takeBucketNews() {
            case .answered: "answered"
            case .knowing(let isOver): isOver ? "over" : "knows"
            case nil: "-"
            }
        }
        #expect(news() == "-")
        for (index, device) in devices.enumerated() {
            call.fork.sent(index, as: ClientTransactionID(rawValue: device.rawValue), on: MachineScene.phone)
            _ = call.fork.provisionalReceived(try Self.response(180), on: index)
            #expect(news() == "knows" && news() == "-")
        }
        _ = call.fork.successReceived(try Self.response(200), on: 0)
        #expect(news() == "answered" && news() == "-" && call.wasAnswered)

        let missed = calls.begin(
            try MachineScene.invite("c2"), nil, branches: [], purpose: .userCall(scene.offer("c2")))
        _ = missed.fork.cancelReceived()
        guard case .knowing(isOver: true)? = missed.takeBucketNews() else {
            Issue.record("the bucket hears that a call is over")
            return
        }
    }

    private static func response(_ status: Status) throws -> SIPResponse {
        try #require(SIPText.readResponse(SIPText.response(status, to: try MachineScene.invite().request, tag: "t")))
    }

    @Test func `the first final status, the first reasons of a CANCEL, and each mark stay`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let call = calls.begin(try MachineScene.invite(), server, branches: [])
        call.answered(with: .temporarilyUnavailable)
        call.answered(with: .ok)
        #expect(call.finalStatus == 480)
        call.cancelled(for: [ByteString("SIP;cause=200")])
        call.cancelled(for: [])
        #expect(call.callerReasons == [ByteString("SIP;cause=200")])
        call.saw(.held)
        call.saw(.timeOver)
        #expect(call.marks.contains(.held) && call.marks.contains(.timeOver) && !call.marks.contains(.told))
    }

    @Test func `an INVITE that waits long is kept as its difference from an earlier one`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let kept = try (0..<3000).map { number in
            let name = "c\(number)"
            return calls.begin(try MachineScene.invite(name), nil, branches: [], purpose: .userCall(scene.offer(name)))
        }
        let (sample, packed, late) = (kept[0].request, kept[1].request, kept[2999].request)
        #expect(!sample.isPacked && packed.isPacked && !late.isPacked)
        #expect(packed.bytes.count < packed.count / 3)
        #expect(packed.unpacked(.forTests) == (try MachineScene.invite("c1").request.frame.bytes))
        // The length of a request is its length as received, even if `Calls` stores the request in packed form.
        #expect(packed.count == (try MachineScene.invite("c1").request.frame.bytes.count))
        #expect(calls.bytes == kept.reduce(0) { $0 + $1.request.count })
        // `Calls` keeps two of the first 1,976 requests unpacked, and packs all others as differences from one of the two.
        #expect(kept[0..<1976].count { !$0.request.isPacked } == 2)
    }

    @Test func `a call that is offered again is not hidden by the end of the one before`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let before = calls.begin(try MachineScene.invite(), server, branches: [], purpose: .userCall(scene.offer()))
        calls.finish(before)
        let after = calls.begin(
            try MachineScene.invite(), ServerTransactionID(rawValue: 2), branches: [], purpose: .userCall(scene.offer())
        )
        calls.finish(before)
        #expect(calls.isOffered(scene.offer().key) && calls.offered == 1)
        calls.finish(after)
        #expect(calls.isOffered(scene.offer().key) == false)
    }

    @Test func `a call whose transaction is over stays while a phone has it`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let call = calls.begin(try MachineScene.invite(), server, branches: [ForkBranch(device: nil)])
        call.fork.sent(0, as: ClientTransactionID(rawValue: 5), on: MachineScene.phone)
        calls.serverEnded(server)
        #expect(calls[call.id] === call)
        _ = call.fork.failed(0, with: .busyHere, response: nil)
        calls.forgetIfDone(call)
        #expect(calls[call.id] == nil)
    }

    @Test func `the stored value of a call contains everything that is kept of it, until it is over`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        let invite = try MachineScene.invite()
        let call = calls.begin(
            invite, server, branches: devices.map(ForkBranch.init), purpose: .userCall(scene.offer()))
        call.fork.waits(0)
        call.fork.pushLeft(0)
        call.fork.sent(1, as: ClientTransactionID(rawValue: 5), on: MachineScene.phone)
        let stored = try #require(StoredCall(call))
        #expect(stored.waiting == [devices[0]] && stored.ringing == [devices[1]])
        #expect(stored.source == MachineScene.pbx)
        #expect(
            stored.userCall?.callID == ByteString("c1") && stored.userCall?.holdUntil == scene.now.date + .seconds(30))
        #expect(stored.branches.map(\.wasPushed) == [true, false])
        // A node that takes over the calls of this node also gets this call, until the call ends.
        #expect(stored.isTrusted && stored.isInStore)
        var ended = stored
        ended.final = ByteString("SIP/2.0 486 Busy Here")
        #expect(!ended.isInStore)
        call.fork.diverted(1, to: devices[0])
        #expect(StoredCall(call)?.ringing == [devices[0]])
        _ = call.fork.cancelReceived()
        #expect(StoredCall(call) == nil)
        let message = calls.begin(invite, ServerTransactionID(rawValue: 2), branches: [ForkBranch(device: nil)])
        #expect(StoredCall(message) == nil)
    }

    @Test func `pages show the oldest calls first, each once`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        for number in 1...25 {
            let server = ServerTransactionID(rawValue: UInt64(number))
            _ = calls.begin(try MachineScene.invite("c\(number)"), server, branches: [ForkBranch(device: nil)])
        }
        var seen: [UInt64] = []
        while case let page = calls.page(after: seen.last ?? 0, limit: 4).map(\.id.rawValue), !page.isEmpty {
            seen += page
        }
        #expect(seen == Array(1...25))
        #expect(calls.page(after: 20, limit: 100).map(\.id.rawValue) == Array(21...25))
    }
}

@Suite("Client transactions with their owners")
struct ClientLegsTests {
    private let scene = MachineScene()
    private let client = ClientTransactionID(rawValue: 3)
    private let device = DeviceID(rawValue: 1)

    @Test func `a leg serves a branch until its transaction ends`() throws {
        var calls = Calls(packing: .forTests, limits: HeldShares.Limits(ProxySettings()))
        var legs = ClientLegs()
        let call = calls.begin(
            try MachineScene.invite(), ServerTransactionID(rawValue: 1), branches: [ForkBranch(device: device)])
        legs.start(client, BranchLeg(call, branch: 0, detour: nil))
        #expect(legs.branch(client)?.call === call)
        legs.arrived(client)
        #expect(legs.branch(client)?.hasArrived == true)
        #expect(legs.end(client)?.call === call)
        #expect(legs[client] == nil && legs.end(client) == nil)
    }

    @Test func `a farewell has an owner of its own, and ends once`() throws {
        var legs = ClientLegs()
        let listener = Listener(
            number: 0, transport: .udp, bound: MachineScene.pbx.remote, sentBy: ByteString("proxy.example.net"))
        for number in 1...2 {
            legs.start(
                ClientTransactionID(rawValue: UInt64(number)),
                Farewell(
                    scene.offer(), isQuestion: false, to: device, on: MachineScene.phone, from: listener,
                    try MachineScene.invite()))
        }
        #expect(legs.branch(ClientTransactionID(rawValue: 1)) == nil)
        #expect(legs.endFarewell(ClientTransactionID(rawValue: 1))?.device == device)
        #expect(legs.endFarewell(ClientTransactionID(rawValue: 1)) == nil)
        #expect(legs.endFarewell(ClientTransactionID(rawValue: 2)) != nil)
    }
}
