import Addressing
import Bytes
import Testing

@testable import ProxyCore

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
    @Test func `each side of a dialog has its own, and the oldest is dropped`() {
        var places = ProvedPlaces()
        let caller = ProvedPlaces.Key(digest: 1, isCaller: true)
        places.note(MachineScene.pbx, for: caller)
        places.note(MachineScene.phone, for: caller)
        #expect(places[caller] == MachineScene.phone)
        #expect(places[ProvedPlaces.Key(digest: 1, isCaller: false)] == nil)
        for digest in 2...16_385 as ClosedRange<UInt64> {
            places.note(MachineScene.pbx, for: ProvedPlaces.Key(digest: digest, isCaller: false))
        }
        #expect(places[caller] == nil)
        #expect(places[ProvedPlaces.Key(digest: 2, isCaller: false)] == MachineScene.pbx)
    }
}
