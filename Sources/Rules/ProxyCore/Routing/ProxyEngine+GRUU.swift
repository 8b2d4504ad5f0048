import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Timekeeping

/// Requests for one device of a user (RFC 5627).
extension ProxyEngine {
    /// Whom a Request-URI in one of our domains names.
    enum Addressee {
        case user(AddressOfRecord)
        /// `nil`: a device of that user which is not there.
        case device(DeviceID?, of: AddressOfRecord)
        case nobody
    }

    func addressee(_ uri: SIPURI, home: ByteString) -> Addressee {
        if let named = deviceNamed(byPURR: uri) { return .device(named.device, of: named.aor) }
        switch GRUU(uri) {
        case nil: return AddressOfRecord(uri, home: home).map { .user($0) } ?? .nobody
        case .publicly(let instance):
            guard let aor = AddressOfRecord(uri, home: home) else { return .nobody }
            return .device(registrar.bindings.device(of: aor, instance: instance), of: aor)
        case .temporary(let sealed):
            guard let (device, callID) = functions.seal.openTemporaryGRUU(sealed),
                let aor = registrar.bindings.binding(device)?.aor, isRegistered(device, callID)
            else { return .nobody }
            return .device(registrar.bindings.device(of: device), of: aor)
        }
    }

    /// The device whose Contact had our `pn-purr`, which stands in the Request-URI now (RFC 8599 section 6).
    func deviceNamed(byPURR uri: SIPURI) -> (device: DeviceID, aor: AddressOfRecord)? {
        guard let purr = uri.parameters.value(of: "pn-purr"), let device = functions.seal.openPURR(purr),
            let aor = registrar.bindings.binding(device)?.aor
        else { return nil }
        return (registrar.bindings.device(of: device), aor)
    }

    /// A client that begins anew, with another Call-ID, gives its temporary GRUUs up (RFC 5627 section 3.2).
    private func isRegistered(_ device: DeviceID, _ callID: UInt32) -> Bool {
        registrar.bindings.callIDNumber(of: device).map { $0 & DialogSeal.callIDMask } == callID
    }

    /// A phone gave the other side its GRUU as its Contact: inside the dialog that is the phone's own contact again.
    func withoutGRUU(_ next: RouteSet.Next, _ pass: DialogPass, now: Moment) -> RouteSet.Next {
        guard case .phone(let device) = pass.receiver.party, GRUU(next.requestURI) != nil,
            let home = identity.home(of: next.requestURI),
            case .device(let named?, _) = addressee(next.requestURI, home: home),
            named == registrar.bindings.device(of: device),
            let target = registrar.bindings.forkTarget(device, now: now.instant),
            let uri = SIPURI(target.requestURI)
        else { return next }
        var next = next
        next.requestURI = uri
        return next
    }
}

extension DialogSeal {
    /// What a sealed number is for, as the end of its sixteen bytes.
    private enum Purpose {
        /// Two bytes, before them three with the number of the answer, and three of what stands for the Call-ID.
        static let gruu: UInt16 = 0x6772
        /// Four bytes, before them the number of the answer.
        static let purr: UInt32 = 0x7075_7272
        /// Four bytes, before them four that stand for the Call-ID: a GRUU of before answers were counted.
        static let formerGRUU: UInt32 = 0x6772_7575
    }

    /// What of the number of a Call-ID stands in a temporary GRUU.
    static let callIDMask: UInt32 = 0xff_ffff

    func seal(_ name: SealedName) -> [23 of UInt8] {
        switch name {
        case .temporaryGRUU(let device, let callID, let answer):
            let numbers = UInt64(callID & Self.callIDMask) << 40 | UInt64(answer & 0xff_ffff) << 16
            return sealBlock(device.rawValue, numbers | UInt64(Purpose.gruu))
        case .purr(let device, let answer):
            return sealBlock(device.rawValue, UInt64(answer) << 32 | UInt64(Purpose.purr))
        }
    }

    /// The device of a temporary GRUU, and the number of its Call-ID as far as it is there. What was made up names no device:
    /// the number of one, its Call-ID and the end would have to fit together.
    func openTemporaryGRUU(_ text: ByteString) -> (device: DeviceID, callID: UInt32)? {
        guard let (high, low) = openBlock(text) else { return nil }
        if UInt16(truncatingIfNeeded: low) == Purpose.gruu {
            return (DeviceID(rawValue: high), UInt32(truncatingIfNeeded: low >> 40))
        }
        guard UInt32(truncatingIfNeeded: low) == Purpose.formerGRUU else { return nil }
        return (DeviceID(rawValue: high), UInt32(truncatingIfNeeded: low >> 32) & Self.callIDMask)
    }

    /// The device of a reference, whichever of its registration's answers that was in.
    func openPURR(_ text: ByteString) -> DeviceID? {
        guard let (high, low) = openBlock(text), UInt32(truncatingIfNeeded: low) == Purpose.purr else { return nil }
        return DeviceID(rawValue: high)
    }
}
