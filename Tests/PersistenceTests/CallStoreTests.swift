import Addressing
import Bytes
import ProxyCore
import PushDelivery
import Registration
import SIPGrammar
import Storage
import StoreTesting
import Testing
import Timekeeping
@testable import Persistence

/// Calls in the store, as the next run finds them.
@Suite struct CallStoreTests {
    private static let flow = Flow(
        transport: .udp, listener: 3, connection: 0, remote: Endpoint(IPAddress(v4: 0xc000_0201), 5061))
    private static let sent = StoredCall.SentINVITE(
        via: ByteString("SIP/2.0/UDP a;branch=z9hG4bK1"), requestURI: ByteString("sip:bob@192.0.2.1"),
        routes: [ByteString("<sip:edge;lr>"), ByteString("<sip:other;lr>")], flow: flow)

    private static func branch(
        _ stage: StoredCall.Branch.Stage = .waiting, code: PushCode? = PushCode(high: 1, low: 2), woken: Bool = false,
        end: ForkBranch.End? = nil, sent: StoredCall.SentINVITE? = nil, former: [ByteString] = []
    ) -> StoredCall.Branch {
        StoredCall.Branch(
            stage: stage, device: DeviceID(rawValue: 9), contact: nil, wasPushed: woken, wasWoken: woken,
            deviceKnows: false, hasMoved: false, record: nil, code: code, end: end, sent: sent, former: former)
    }

    private static func call(
        _ id: UInt64, final: String = "", sender: AddressOfRecord? = nil, _ branches: [StoredCall.Branch]
    ) -> StoredCall {
        StoredCall(
            id: id, aor: AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net")),
            callRef: CallRef(rawValue: .max), callID: .empty, fromTag: .empty,
            receivedAt: UnixTime(milliseconds: 1_790_000_000_123),
            holdUntil: UnixTime(milliseconds: 1_790_000_030_123), mayPush: true, source: flow, isTrusted: sender == nil,
            sender: sender, request: ByteString("INVITE sip:bob@example.net SIP/2.0\r\n\r\n"),
            final: ByteString(final), branches: branches)
    }

    private static func kept(_ changes: [CallChange]) throws -> [StoredCall] {
        let folder = try StoreFolder()
        let connection = try Connection.openStore(folder.path, mayCreate: true)
        for change in changes { _ = try connection.apply(.engine(.call(change))) }
        try connection.removeStrayBranches()
        return try connection.calls(after: 0, limit: 100)
    }

    @Test func `a call comes back as it was written`() throws {
        let sender = AddressOfRecord(user: ByteString("al@ice"), host: ByteString("example.net"))
        let calls = [
            Self.call(1, [Self.branch(), Self.branch(.called, code: nil, sent: Self.sent)]),
            Self.call(7, sender: sender, [Self.branch(woken: true)]),
        ]
        #expect(try Self.kept(calls.map { .begun($0) }) == calls)
    }

    @Test func `what happens to it is kept, and what was sent before as well`() throws {
        let other = StoredCall.SentINVITE(
            via: ByteString("SIP/2.0/UDP a;branch=z9hG4bK2"), requestURI: Self.sent.requestURI, routes: [],
            flow: Self.flow)
        let found = try Self.kept([
            .begun(Self.call(1, [Self.branch()])),
            .branch(call: 1, number: 0, Self.branch(code: nil, woken: true)),
            .branch(call: 1, number: 0, Self.branch(.called, code: nil, woken: true, sent: Self.sent)),
            .branch(call: 1, number: 0, Self.branch(.called, code: nil, woken: true, sent: other)),
            .branch(call: 1, number: 1, Self.branch(.called, sent: Self.sent)),
            .branch(call: 1, number: 0, Self.branch(.ended, code: nil, woken: true, end: .failed(486))),
            .final(call: 1, Array("SIP/2.0 486 Busy Here\r\n\r\n".utf8)),
        ])
        let wanted = Self.call(
            1, final: "SIP/2.0 486 Busy Here\r\n\r\n",
            [
                Self.branch(.ended, woken: true, end: .failed(486), sent: other, former: [Self.sent.via]),
                Self.branch(.called, sent: Self.sent),
            ])
        #expect(found == [wanted])
    }

    @Test(arguments: [
        ForkBranch.End.succeeded, .failed(486), .gaveUp(503), .silent, .cancelled(.answeredElsewhere),
        .cancelled(.declinedElsewhere(603)), .cancelled(.callerCancelled), .cancelled(.dismissed(480)),
        .cancelled(.moved),
    ])
    func `each end of a branch comes back`(end: ForkBranch.End) throws {
        let call = Self.call(1, [Self.branch(.ended, end: end)])
        #expect(try Self.kept([.begun(call)]) == [call])
    }

    @Test func `a connection does not come back`() throws {
        let theirs = Flow(transport: .tcp, listener: 1, connection: 8, remote: Self.flow.remote)
        let sent = StoredCall.SentINVITE(via: Self.sent.via, requestURI: Self.sent.requestURI, routes: [], flow: theirs)
        let found = try Self.kept([.begun(Self.call(1, [Self.branch(.called, sent: sent)]))])
        #expect(found.first?.branches.first?.sent?.flow.isClosed == true)
    }

    @Test func `nothing is left of a call that is over, or of one that could not be written`() throws {
        let found = try Self.kept([
            .begun(Self.call(1, [Self.branch()])), .over(call: 1), .branch(call: 2, number: 0, Self.branch()),
        ])
        #expect(found.isEmpty)
    }

    @Test func `calls come in pages`() throws {
        let folder = try StoreFolder()
        let connection = try Connection.openStore(folder.path, mayCreate: true)
        let calls = (1...5).map { Self.call($0, [Self.branch(), Self.branch(.called, sent: Self.sent)]) }
        for call in calls { _ = try connection.apply(.engine(.call(.begun(call)))) }
        #expect(try connection.calls(after: 0, limit: 2) == Array(calls[..<2]))
        #expect(try connection.calls(after: 2, limit: 2) == Array(calls[2..<4]))
        #expect(try connection.calls(after: 4, limit: 2) == Array(calls[4...]))
        #expect(try connection.calls(after: 5, limit: 2).isEmpty)
    }
}
