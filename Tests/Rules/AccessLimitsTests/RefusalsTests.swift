import Addressing
import Bytes
import PushDelivery
import Registration
import Testing
import Timekeeping

@testable import AccessLimits

/// Tests that the number of log lines about refused requests is limited, and that no source uses up the lines of other
/// sources (T35.1).
@Suite("Reports of refusals")
struct RefusalsTests {
    private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 1_000_000_000) + .seconds(seconds) }
    private func host(_ number: Int) -> IPAddress { IPAddress(v4: 0xcb00_0000 + UInt32(number)) }
    private func call(_ name: String) -> RefusedCall {
        RefusedCall(
            callee: AddressOfRecord(user: ByteString("bob"), host: ByteString("example.net")),
            caller: ByteString("sip:103@pbx"), callID: ByteString(name))
    }

    @Test func `one source has few lines and records, and the next line has the number of omitted ones`() {
        var refusals = Refusals()
        let told = (0..<1000).map { _ in refusals.refused(.stranger, at: host(1), now: at(0)) }
        #expect(told.count { $0.suppressed != nil } == 6)
        #expect(told.count(where: \.isRecorded) == 20)
        #expect(refusals.refused(.stranger, at: host(1), now: at(70)).suppressed == 994)
    }

    @Test func `sources without number share one part, and leave trusted peers and users theirs`() {
        var refusals = Refusals()
        let told = (0..<100_000).map { refusals.refused(.stranger, at: host($0), now: at(0)) }
        #expect(told.count { $0.suppressed != nil } == 10)
        #expect(told.count(where: \.isRecorded) == 120)
        for share in [RefusalShare.trusted, .user] {
            #expect(refusals.refused(share, at: host(7), now: at(0)) == .init(suppressed: 0, isRecorded: true))
        }
    }

    @Test func `a source that shows no password in time is reported once, and one that does is not`() {
        var refusals = Refusals()
        let pbx = Endpoint(host(1), 5060)
        func asked(_ name: String, now: Instant) -> Instant? {
            refusals.asked({ call(name) }, callID: ByteString(name), at: pbx, now: now)
        }
        #expect(asked("a", now: at(0)) == at(3))
        #expect(asked("a", now: at(1)) == nil)
        #expect(asked("b", now: at(1)) == nil)
        refusals.answered(callID: ByteString("b"), at: host(2))
        #expect(refusals.silent(now: at(2)).calls.isEmpty)
        refusals.answered(callID: ByteString("b"), at: host(1))
        let first = refusals.silent(now: at(3))
        #expect(first.calls.map(\.call.callID) == [ByteString("a")] && first.next == at(4))
        let last = refusals.silent(now: at(4))
        #expect(last.calls.isEmpty && last.next == nil)
    }

    @Test func `the number of watched sources is limited`() {
        var refusals = Refusals()
        for number in 0..<10_000 {
            let name = "c\(number)"
            _ = refusals.asked({ call(name) }, callID: ByteString(name), at: Endpoint(host(number), 5060), now: at(0))
        }
        #expect(refusals.silent(now: at(3)).calls.count == Refusals.capacity)
        for number in 0..<100 {
            let name = "d\(number)"
            _ = refusals.asked({ call(name) }, callID: ByteString(name), at: Endpoint(host(99_999), 5060), now: at(70))
        }
        #expect(refusals.silent(now: at(80)).calls.count == 20)
    }
}
