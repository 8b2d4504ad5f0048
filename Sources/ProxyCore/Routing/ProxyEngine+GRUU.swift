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
        registrar.bindings.callIDNumber(of: device) == callID
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
    /// What a sealed number is for, as the last four of its sixteen bytes.
    private enum Purpose: UInt32 {
        case gruu = 0x6772_7575
        case purr = 0x7075_7272
    }

    func seal(_ name: SealedName) -> [23 of UInt8] {
        switch name {
        case .temporaryGRUU(let device, let callID): seal(device, callID, .gruu)
        // The same for each refresh of a registration (RFC 8599 section 9.3).
        case .purr(let device): seal(device, 0, .purr)
        }
    }

    private func seal(_ device: DeviceID, _ number: UInt32, _ purpose: Purpose) -> [23 of UInt8] {
        sealBlock(device.rawValue, UInt64(number) << 32 | UInt64(purpose.rawValue))
    }

    /// The device of a temporary GRUU, and the number of its Call-ID. Of what was made up, one in four thousand million has
    /// the right end, and names no device then.
    func openTemporaryGRUU(_ text: ByteString) -> (device: DeviceID, callID: UInt32)? {
        guard let (high, low) = openBlock(text), UInt32(truncatingIfNeeded: low) == Purpose.gruu.rawValue else {
            return nil
        }
        return (DeviceID(rawValue: high), UInt32(truncatingIfNeeded: low >> 32))
    }

    func openPURR(_ text: ByteString) -> DeviceID? {
        guard let (high, low) = openBlock(text), low == UInt64(Purpose.purr.rawValue) else { return nil }
        return DeviceID(rawValue: high)
    }
}
