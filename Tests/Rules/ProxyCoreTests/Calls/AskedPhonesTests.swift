import Addressing
import SIPTransactions
import Testing
import Timekeeping

@testable import ProxyCore

@Suite("Phones that are asked before their lists go")
struct AskedPhonesTests {
    private let phone = DeviceID(rawValue: 1)
    private let other = DeviceID(rawValue: 2)

    private func client(_ number: UInt64) -> ClientTransactionID { ClientTransactionID(rawValue: number) }

    private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    @Test func `a list waits for the last of several answers`() {
        var phones = AskedPhones()
        #expect(phones.asked(phone, by: client(1), now: at(0)) == at(2000))
        #expect(phones.asked(phone, by: client(2), now: at(500)) == nil)
        #expect(phones.answered(phone, by: client(1)) == false)
        #expect(phones.isAsked(phone))
        #expect(phones.answered(phone, by: client(1)) == false)
        #expect(phones.answered(other, by: client(2)) == false)
        #expect(phones.answered(phone, by: client(2)) == true)
        #expect(!phones.isAsked(phone))
    }

    @Test func `it waits two seconds from the first question, and a late answer is none`() {
        var phones = AskedPhones()
        _ = phones.asked(phone, by: client(1), now: at(0))
        _ = phones.asked(phone, by: client(2), now: at(1900))
        phones.timeOver(of: phone, now: at(1999))
        #expect(phones.isAsked(phone) && !phones.isAsked(other))
        phones.timeOver(of: phone, now: at(2000))
        #expect(!phones.isAsked(phone))
        #expect(phones.answered(phone, by: client(2)) == false)
    }

    @Test func `the end of an earlier question's time is not that of the next`() {
        var phones = AskedPhones()
        _ = phones.asked(phone, by: client(1), now: at(0))
        #expect(phones.answered(phone, by: client(1)) == true)
        #expect(phones.asked(phone, by: client(2), now: at(1500)) == at(3500))
        phones.timeOver(of: phone, now: at(2000))
        #expect(phones.isAsked(phone))
    }
}
