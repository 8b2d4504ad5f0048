import Addressing
import ProxyRuntime
import Testing
import Timekeeping

@Suite("Flow admission")
struct FlowAdmissionTests {
    private static let start = Instant(nanoseconds: 1_000_000_000)
    private let phone = IPAddress(v4: 0x0a00_0001)
    private let other = IPAddress(v4: 0x0a00_0002)

    private func admission(_ change: (inout FlowLimits) -> Void = { _ in }) -> FlowAdmission {
        var limits = FlowLimits()
        limits.perSource = 2
        limits.connections = 3
        change(&limits)
        return FlowAdmission(limits)
    }

    private func at(_ seconds: Int) -> Instant { Self.start + .seconds(seconds) }

    @Test func `one source has so many unproved connections, others and proved ones do not count`() {
        var admission = admission { $0.connections = 100 }
        var first = admission.added(1, from: phone, isTrusted: false, now: at(0))
        #expect(admission.verdict(on: phone, isTrusted: false) == .admitted)
        var second = admission.added(2, from: phone, isTrusted: false, now: at(0))
        #expect(admission.verdict(on: phone, isTrusted: false) == .refusedForSource)
        #expect(admission.verdict(on: phone, isTrusted: true) == .admitted)
        #expect(admission.verdict(on: other, isTrusted: false) == .admitted)
        _ = admission.proved(&first, by: nil)
        _ = admission.proved(&first, by: nil)
        #expect(admission.verdict(on: phone, isTrusted: false) == .admitted)
        _ = admission.added(3, from: phone, isTrusted: false, now: at(0))
        #expect(admission.verdict(on: phone, isTrusted: false) == .refusedForSource)
        admission.removed(&second)
        #expect(admission.verdict(on: phone, isTrusted: false) == .admitted)
    }

    @Test func `all addresses of an IPv6 network are one source`() throws {
        let one = try #require(IPAddress("2001:db8::1")?.source)
        let two = try #require(IPAddress("2001:db8::ffff:2")?.source)
        var admission = admission()
        _ = admission.added(1, from: one, isTrusted: false, now: at(0))
        _ = admission.added(2, from: two, isTrusted: false, now: at(0))
        #expect(admission.verdict(on: one, isTrusted: false) == .refusedForSource)
    }

    @Test func `in a full table the oldest connection without a password is closed, and proved ones never`() {
        var admission = admission { $0.perSource = 10 }
        var one = admission.added(1, from: phone, isTrusted: false, now: at(0))
        var two = admission.added(2, from: phone, isTrusted: false, now: at(1))
        var three = admission.added(3, from: phone, isTrusted: false, now: at(2))
        #expect(admission.verdict(on: other, isTrusted: false) == .admittedFor(1))
        #expect(admission.verdictOnOutgoing() == .admittedFor(1))
        _ = admission.proved(&one, by: nil)
        #expect(admission.verdict(on: other, isTrusted: true) == .admittedFor(2))
        _ = admission.proved(&two, by: nil)
        _ = admission.proved(&three, by: nil)
        #expect(admission.verdict(on: other, isTrusted: false) == .refusedForTable)
        admission.removed(&two)
        #expect(admission.verdict(on: other, isTrusted: false) == .admitted)
    }

    @Test func `the time starts with the connection, independent of its bytes`() {
        var admission = admission()
        var one = admission.added(1, from: phone, isTrusted: false, now: at(0))
        var two = admission.added(2, from: phone, isTrusted: false, now: at(5))
        #expect(admission.nextDeadline == at(20))
        #expect(admission.expired(now: at(19)) == nil)
        #expect(admission.expired(now: at(20))?.number == 1)
        #expect(admission.expired(now: at(20))?.cause == .noRequest)
        admission.asked(&one)
        #expect(admission.expired(now: at(24)) == nil)
        #expect(admission.nextDeadline == at(25))
        admission.asked(&two)
        #expect(admission.nextDeadline == at(60))
        #expect(admission.expired(now: at(60))?.cause == .notProved)
        admission.removed(&one)
        _ = admission.proved(&two, by: nil)
        #expect(admission.nextDeadline == nil)
        #expect(admission.expired(now: at(9999)) == nil)
    }

    @Test func `without authentication a request is enough, and trusted peers need none`() {
        var admission = admission { $0.authentication = nil }
        _ = admission.added(1, from: phone, isTrusted: true, now: at(0))
        #expect(admission.nextDeadline == nil)
        var two = admission.added(2, from: phone, isTrusted: false, now: at(0))
        admission.asked(&two)
        #expect(admission.nextDeadline == nil)
        #expect(admission.count == 2)
    }

    @Test func `one account has a share of the proved ones, and more of them stay unproved`() {
        var admission = admission {
            $0.connections = 640
            $0.perSource = 1000
        }
        var standings = (0..<41).map { admission.added(UInt64($0), from: phone, isTrusted: false, now: at(0)) }
        for index in 0..<40 { #expect(admission.proved(&standings[index], by: 7)) }
        // A connection that authenticates twice counts only once.
        #expect(admission.proved(&standings[0], by: 7))
        #expect(!admission.proved(&standings[40], by: 7))
        #expect(standings[40].isUnproved)
        #expect(admission.expired(now: at(20))?.number == 40)
        var other = admission.added(50, from: phone, isTrusted: false, now: at(0))
        #expect(admission.proved(&other, by: 8))
        admission.removed(&standings[3])
        #expect(admission.proved(&standings[40], by: 7))
        // If phones need no passwords, connections belong to no account, and the limit for each account does not apply.
        var rest = (100..<200).map { admission.added(UInt64($0), from: phone, isTrusted: false, now: at(0)) }
        for index in rest.indices { #expect(admission.proved(&rest[index], by: nil)) }
    }
}
