import Addressing
import PushDelivery
import TestSupport
import Testing
import Timekeeping

@Suite("Unread pushes")
struct UnreadPushesTests {
    private let phone: DeviceID = 71
    private let tablet: DeviceID = 72

    private func code(_ number: UInt64) -> PushCode { PushCode(high: number, low: number) }
    private func call(_ number: UInt64) -> CallRef { CallRef(rawValue: number) }

    private func unread(limit: Int = 1000) -> UnreadPushes {
        UnreadPushes(limit: limit, maximumAge: .seconds(3600))
    }

    /// Orders pushes for calls 1 to `count`, each a second after the previous one.
    private func called(_ count: UInt64, _ unread: inout UnreadPushes) -> [Int] {
        (1...count).map {
            unread.asked(code($0), .call(call($0)), by: phone, at: sampleDate + .seconds(Int64($0)))
        }
    }

    @Test func `each push counts itself, and reading one takes it away`() {
        var unread = unread()
        #expect(called(3, &unread) == [1, 2, 3])
        let wasThere = unread.ended(code(2), of: phone)
        let isThere = unread.ended(code(2), of: phone)
        #expect(wasThere && !isThere)
        #expect(unread.asked(code(4), .other, by: phone, at: sampleDate) == 3)
    }

    @Test func `devices count for themselves`() {
        var unread = unread()
        #expect(called(3, &unread) == [1, 2, 3])
        #expect(unread.asked(code(3), .call(call(3)), by: tablet, at: sampleDate) == 1)
        let isThere = unread.ended(code(1), of: tablet)
        #expect(!isThere)
        #expect(unread.count(of: phone) == 3)
        #expect(Set(unread.allRead(by: phone)) == [code(1), code(2), code(3)])
        #expect(unread.count(of: phone) == 0 && unread.count(of: tablet) == 1 && unread.count == 1)
        unread.deviceRemoved(tablet)
        #expect(unread.count == 0)
    }

    @Test func `a call that is settled is no news`() {
        var unread = unread()
        _ = called(2, &unread)
        #expect(unread.callIsNoNews(call(1), of: phone) == code(1))
        #expect(unread.callIsNoNews(call(1), of: phone) == nil)
        #expect(unread.callIsNoNews(call(2), of: tablet) == nil)
        #expect(unread.count(of: phone) == 1)
    }

    @Test func `an accepted list replaces its calls and older lists`() {
        var unread = unread()
        _ = called(3, &unread)
        _ = unread.asked(code(4), .other, by: phone, at: sampleDate)
        // The list of missed calls has calls 1 and 2, and neither call 3 nor the message.
        #expect(unread.listAsked(code(5), of: [call(1), call(2)], by: phone, at: sampleDate) == 3)
        #expect(unread.count(of: phone) == 5)
        #expect(Set(unread.listAccepted(code(5), of: [call(1), call(2)], by: phone)) == [code(1), code(2)])
        #expect(unread.count(of: phone) == 3)
        #expect(unread.listAsked(code(6), of: [call(3)], by: phone, at: sampleDate) == 2)
        #expect(Set(unread.listAccepted(code(6), of: [call(3)], by: phone)) == [code(3), code(5)])
        #expect(unread.count(of: phone) == 2)
    }

    @Test func `a list that is accepted late does not read a newer one`() {
        var unread = unread()
        _ = unread.listAsked(code(1), of: [call(1)], by: phone, at: sampleDate)
        _ = unread.listAsked(code(2), of: [call(2)], by: phone, at: sampleDate)
        #expect(unread.listAccepted(code(1), of: [call(1)], by: phone).isEmpty)
        #expect(unread.listAccepted(code(2), of: [call(2)], by: phone) == [code(1)])
    }

    @Test func `99 is the most`() {
        var unread = unread()
        #expect(called(120, &unread).last == 99)
        #expect(unread.count == 99)
        let oldest = unread.ended(code(21), of: phone)
        let kept = unread.ended(code(22), of: phone)
        #expect(!oldest && kept)
    }

    @Test func `pushes that are too old do not count`() {
        var unread = unread()
        _ = called(3, &unread)
        #expect(unread.asked(code(9), .other, by: phone, at: sampleDate + .seconds(3602)) == 3)
        #expect(unread.asked(code(10), .other, by: phone, at: sampleDate + .seconds(9000)) == 1)
        #expect(unread.count == 1)
    }

    @Test func `without room a push counts itself alone`() {
        var unread = unread(limit: 2)
        #expect(called(4, &unread) == [1, 2, 3, 3])
        #expect(unread.asked(code(9), .other, by: tablet, at: sampleDate) == 1)
        #expect(unread.count == 2)
    }
}

@Suite("Codes of pushes")
struct PushCodeTests {
    @Test func `its text is read again`() {
        let code = PushCode(high: 0x1234_5678_9abc_def0, low: 0xfedc_ba98_7654_3210)
        #expect(code.description == "12345678-9abc-4ef0-bedc-ba9876543210")
        #expect(PushCode(code.description) == code)
        #expect(PushCode(high: .max, low: .max).description == "ffffffff-ffff-4fff-bfff-ffffffffffff")
        #expect(PushCode("00000000-0000-4000-8000-000000000000") == PushCode(high: 0, low: 0))
    }

    @Test(arguments: [
        "", "12345678-9abc-4ef0-bedc-ba987654321", "12345678-9abc-4ef0-bedc-ba98765432100",
        "12345678-9ABC-4ef0-bedc-ba9876543210", "12345678-9abc-1ef0-bedc-ba9876543210",
        "12345678-9abc-4ef0-3edc-ba9876543210", "123456789abc-4ef0-bedc-ba98765432100",
        "12345678-9abc-4ef0-bedc-ba987654321g", "12345678-9abc-4ef0-bedc-ba98765432é",
    ])
    func `other texts are invalid`(text: String) {
        #expect(PushCode(text) == nil)
    }
}
