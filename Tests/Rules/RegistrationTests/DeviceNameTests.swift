import Addressing
import Testing
import Timekeeping

@testable import Registration

@Suite("Device names")
struct DeviceNameTests {
    @Test func `a name is short, made from the number alone, and begins with a letter`() {
        #expect(DeviceID(rawValue: 71).name == "r2rp2" && DeviceID(rawValue: 72).name == "hz6hw")
        for number in [0, 1, 1_882_453_999_738_978_306, UInt64.max] {
            let name = DeviceID(rawValue: number).name
            #expect(name.count == 5 && name.first?.isLetter == true, "\(name)")
        }
    }

    @Test func `a device is meant by its name in either case and by its whole number`() {
        let device = DeviceID(rawValue: 71)
        for text in ["r2rp2", "R2RP2", "71"] { #expect(device.isNamed(text)) }
        for text in ["", "r2rp", "r2rp23", "071", "7", "hz6hw"] { #expect(!device.isNamed(text)) }
    }

    @Test func `thousands that register after each other have different names`() {
        let start: UInt64 = 1_882_453_999_738_978_305
        let names = Set((0..<20_000).map { DeviceID(rawValue: start + $0).name })
        #expect(names.count == 20_000)
    }

    /// Two device ids that differ by the Fibonacci number 14,930,352 may give the same name.
    @Test func `a user's devices never have one name`() throws {
        let twin = DeviceID(rawValue: 1 + 14_930_352)
        #expect(DeviceID(rawValue: 1).name == twin.name)
        var registrar = Registrar()
        registrar.table.nextID = DeviceID(rawValue: 1)
        try registrar.register("<sip:a@h>", callID: "a")
        registrar.table.nextID = twin
        try registrar.register("<sip:b@h>", callID: "b")
        // Two devices of different users may have equal names.
        registrar.table.nextID = twin
        try registrar.register("<sip:c@h>", user: "alice", callID: "c")
        let numbers = registrar.table.bindings(for: .user("bob"), now: registrar.now.instant).map(\.id.rawValue)
        #expect(numbers == [1, twin.rawValue + 1])
        #expect(registrar.table.bindings(for: .user("alice"), now: registrar.now.instant).map(\.id) == [twin])
    }
}
