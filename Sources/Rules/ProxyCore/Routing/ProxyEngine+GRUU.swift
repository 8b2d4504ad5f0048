import Addressing
import Bytes
import PushDelivery
import Registration
import SIPGrammar
import Timekeeping

/// Requests that name one device of a user by a GRUU (RFC 5627) or a `pn-purr` (RFC 8599).
extension ProxyEngine {
    /// The user or device that a Request-URI in one of our domains names.
    enum Addressee {
        case user(AddressOfRecord)
        /// One device of a user. `nil` if that device has no contact now.
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

    /// The device that a `pn-purr` in the Request-URI names (RFC 8599 section 6). We gave the device that value when it
    /// registered.
    func deviceNamed(byPURR uri: SIPURI) -> (device: DeviceID, aor: AddressOfRecord)? {
        guard let purr = uri.parameters.value(of: "pn-purr"), let device = functions.seal.openPURR(purr),
            let aor = registrar.bindings.binding(device)?.aor
        else { return nil }
        return (registrar.bindings.device(of: device), aor)
    }

    /// Whether the device still registers with this Call-ID. A client that registers with another Call-ID loses its
    /// temporary GRUUs (RFC 5627 section 3.2).
    private func isRegistered(_ device: DeviceID, _ callID: UInt32) -> Bool {
        registrar.bindings.callIDNumber(of: device).map { $0 & DialogSeal.callIDMask } == callID
    }

    /// Replaces a phone's GRUU in the Request-URI by the phone's contact. Requests inside a dialog carry the GRUU if
    /// the phone used it as its Contact.
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
    /// The last bytes of a sealed block of sixteen bytes. They say what the block is for.
    private enum Purpose {
        /// The last two bytes. The three bytes before them count the REGISTER answers, and the three before those are a
        /// part of the Call-ID's number.
        static let gruu: UInt16 = 0x6772
        /// The last four bytes. The four bytes before them count the REGISTER answers.
        static let purr: UInt32 = 0x7075_7272
        /// The last four bytes of a GRUU from versions that did not count answers. The four bytes before them stand for
        /// the Call-ID.
        static let formerGRUU: UInt32 = 0x6772_7575
    }

    /// The bits of a Call-ID's number that a temporary GRUU contains.
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

    /// The device of a temporary GRUU, and the part of its Call-ID's number that the GRUU contains. A forged GRUU names
    /// no device: the device number, the Call-ID and the purpose would have to match.
    func openTemporaryGRUU(_ text: ByteString) -> (device: DeviceID, callID: UInt32)? {
        guard let (high, low) = openBlock(text) else { return nil }
        if UInt16(truncatingIfNeeded: low) == Purpose.gruu {
            return (DeviceID(rawValue: high), UInt32(truncatingIfNeeded: low >> 40))
        }
        guard UInt32(truncatingIfNeeded: low) == Purpose.formerGRUU else { return nil }
        return (DeviceID(rawValue: high), UInt32(truncatingIfNeeded: low >> 32) & Self.callIDMask)
    }

    /// The device that a `pn-purr` names, whichever REGISTER answer contained the value.
    func openPURR(_ text: ByteString) -> DeviceID? {
        guard let (high, low) = openBlock(text), UInt32(truncatingIfNeeded: low) == Purpose.purr else { return nil }
        return DeviceID(rawValue: high)
    }
}
