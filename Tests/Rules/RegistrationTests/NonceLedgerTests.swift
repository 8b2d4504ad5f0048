import Bytes
import Testing
import Timekeeping

@testable import Registration

@Suite("Counts of nonces (T8)")
struct NonceLedgerTests {
    private func at(_ seconds: Int) -> Instant { Instant(nanoseconds: 0) + .seconds(seconds) }

    @Test func `a count is good once, and again for the same request alone`() {
        var ledger = NonceLedger(limit: 100, lifetime: .seconds(60))
        func admit(_ count: UInt32, _ fingerprint: Int) -> Bool {
            ledger.admit(7, count: count, fingerprint: fingerprint, now: at(0))
        }
        #expect(admit(1, 10))
        #expect(admit(1, 10))
        #expect(!admit(1, 11))
        #expect(admit(5, 12) && !admit(4, 13) && !admit(1, 10))
        #expect(ledger.count == 1)
    }

    @Test func `memory is limited, and nonces that may have been forgotten are refused`() {
        var ledger = NonceLedger(limit: 10, lifetime: .seconds(60))
        for serial in 1...30 as ClosedRange<UInt64> {
            #expect(ledger.admit(serial, count: 1, fingerprint: 0, now: at(1)) == true)
            #expect(ledger.count <= 10)
        }
        #expect(ledger.admit(1, count: 1, fingerprint: 0, now: at(1)) == false)
        #expect(ledger.admit(1, count: 2, fingerprint: 0, now: at(1)) == false)
        #expect(ledger.admit(30, count: 2, fingerprint: 0, now: at(1)) == true)
    }

    @Test func `a used nonce is forgotten after two lifetimes at the latest, and stays refused`() {
        var ledger = NonceLedger(limit: 100, lifetime: .seconds(60))
        #expect(ledger.admit(3, count: 1, fingerprint: 0, now: at(0)) == true)
        #expect(ledger.admit(4, count: 1, fingerprint: 0, now: at(61)) == true)
        // When a nonce is used again, the ledger moves the nonce from its older half to its newer half.
        #expect(ledger.admit(3, count: 2, fingerprint: 0, now: at(62)) == true)
        #expect(ledger.admit(9, count: 1, fingerprint: 0, now: at(125)) == true)
        #expect(ledger.admit(10, count: 1, fingerprint: 0, now: at(190)) == true)
        #expect(ledger.count == 2)
        #expect(ledger.admit(3, count: 9, fingerprint: 0, now: at(190)) == false)
    }
}

@Suite("Users whose last contact has gone")
struct DepartedAddressesTests {
    private func user(_ number: Int) -> AddressOfRecord {
        AddressOfRecord(user: ByteString("u\(number)"), host: ByteString("example.net"))
    }

    @Test func `are remembered, the latest of them where they are many`() {
        var departed = DepartedAddresses()
        #expect(!departed.contains(user(0)))
        for number in 0..<50_001 { departed.add(user(number)) }
        #expect(departed.contains(user(0)) && departed.contains(user(50_000)) && !departed.contains(user(50_001)))
        for number in 50_001..<100_001 { departed.add(user(number)) }
        #expect(!departed.contains(user(0)) && departed.contains(user(50_000)) && departed.contains(user(100_000)))
    }
}
