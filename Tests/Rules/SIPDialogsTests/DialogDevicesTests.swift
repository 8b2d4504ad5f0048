@testable import SIPDialogs
import TestSupport
import Addressing
import Bytes
import Testing
import Timekeeping

@Suite("Phones in dialogs (RFC 3891)")
struct DialogDevicesTests {
    private func replaced(_ devices: DialogDevices, _ value: String) -> DeviceID? {
        devices.device(replacedBy: ByteString(value))
    }

    @Test func `a phone is found by the Call-ID and its own tag`() {
        var devices = DialogDevices()
        devices.note(DeviceID(rawValue: 5), callID: ByteString("c@h"), tag: ByteString("t1"))
        #expect(replaced(devices, "c@h;to-tag=t1;from-tag=f") == DeviceID(rawValue: 5))
        #expect(replaced(devices, " c@h ; early-only ; TO-TAG = t1 ; from-tag=f") == DeviceID(rawValue: 5))
        for other in ["c@h;to-tag=f;from-tag=t1", "c@h", "d@h;to-tag=t1", "", ";to-tag=t1", "c@h;to-tag"] {
            #expect(replaced(devices, other) == nil, "\(other)")
        }
    }

    @Test func `the last phone of a dialog counts, and the oldest dialog is dropped`() {
        var devices = DialogDevices(limit: 2)
        for number in 1...3 as ClosedRange<UInt64> {
            devices.note(DeviceID(rawValue: number), callID: ByteString("c\(number)"), tag: ByteString("t"))
            devices.note(DeviceID(rawValue: 10 + number), callID: ByteString("c\(number)"), tag: ByteString("t"))
        }
        #expect(replaced(devices, "c1;to-tag=t") == nil)
        #expect(replaced(devices, "c2;to-tag=t") == DeviceID(rawValue: 12))
        #expect(replaced(devices, "c3;to-tag=t") == DeviceID(rawValue: 13))
    }
}

@Suite("Flows that a password has proved")
struct ProvedPlacesTests {
    private static func pass(_ digest: UInt64, isFromCaller: Bool) -> DialogPass {
        let side = DialogSide(.peer, on: MachineScene.pbx)
        return DialogPass(
            token: DialogToken(made: UnixTime(seconds: 0), caller: side, callee: side), isFromCaller: isFromCaller,
            digest: digest)
    }

    @Test func `each side of a dialog has its own, and the oldest is dropped`() {
        var places = ProvedPlaces()
        let caller = Self.pass(1, isFromCaller: true)
        places.note(MachineScene.pbx, for: caller)
        places.note(MachineScene.phone, for: caller)
        #expect(places[caller] == MachineScene.phone)
        #expect(places[Self.pass(1, isFromCaller: false)] == nil)
        for digest in 2...16_385 as ClosedRange<UInt64> {
            places.note(MachineScene.pbx, for: Self.pass(digest, isFromCaller: false))
        }
        #expect(places[caller] == nil)
        #expect(places[Self.pass(2, isFromCaller: false)] == MachineScene.pbx)
    }
}
