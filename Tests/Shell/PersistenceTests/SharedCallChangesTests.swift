import Bytes
import Calling
@testable import Persistence
import SIPGrammar
import Testing

/// The changes of a call in the row that another node reads.
@Suite("Changes of shared calls") struct SharedCallChangesTests {
    private static let request = ByteString("INVITE sip:bob@example.net SIP/2.0\r\n\r\n")
    private static let changes: [CallChange] = [
        .begun(CallJournalTests.call(0, [CallJournalTests.branch()]).with(request: .empty)),
        .branch(call: 0, number: 0, CallJournalTests.branch(.called, code: nil, woken: true)),
        .branch(call: 0, number: 1, CallJournalTests.branch(.ended, end: .failed(486))),
    ]

    private static func written(_ changes: some Sequence<CallChange>) -> [UInt8] {
        var bytes: [UInt8] = []
        for change in changes { SharedCallChanges.append(change, to: &bytes) }
        return bytes
    }

    @Test func `a call is read back as its changes were written`() {
        let read = SharedCallChanges.call(in: Self.written(Self.changes), request: Self.request)
        #expect(read == StoredCall(changes: Self.changes, request: Self.request))
        #expect(read?.branches.map(\.stage) == [.called, .ended])
        #expect(read?.request == Self.request)
    }

    @Test func `no bytes, or changes without a beginning, are no call`() {
        #expect(SharedCallChanges.call(in: [], request: Self.request) == nil)
        #expect(SharedCallChanges.call(in: Self.written(Self.changes.dropFirst()), request: Self.request) == nil)
    }

    @Test func `a part of the bytes is a part of the changes, or no call`() {
        let bytes = Self.written(Self.changes)
        let whole = (1...Self.changes.count).map { Self.written(Self.changes.prefix($0)).count }
        for count in 0..<bytes.count {
            let read = SharedCallChanges.call(in: Array(bytes.prefix(count)), request: Self.request)
            #expect((read != nil) == whole.contains(count), "\(count) of \(bytes.count) bytes")
        }
    }

    @Test func `other bytes are no call, and do no harm`() {
        let bytes = Self.written(Self.changes)
        for place in bytes.indices {
            for value in [0, 0x7f, 0xff] as [UInt8] {
                var changed = bytes
                changed[place] = value
                if let read = SharedCallChanges.call(in: changed, request: Self.request) {
                    #expect(read.branches.count <= Self.changes.count)
                }
            }
        }
        #expect(SharedCallChanges.call(in: [1, 0xff, 0xff, 0xff, 0xff], request: Self.request) == nil)
        #expect(SharedCallChanges.call(in: [99, 0, 0, 0, 0] + bytes, request: Self.request) == nil)
    }
}
