package import Addressing
package import Bytes
package import Registration

/// Encrypts and decrypts temporary GRUUs (RFC 5627) and `pn-purr` values (RFC 8599), each in one block.
extension DialogSeal {
    /// The purpose of an encrypted block, in the block's last bytes.
    private enum Purpose {
        /// The last two bytes of a GRUU's block; before them are three bytes of the Call-ID's hash and three bytes of
        /// the number of the 200.
        static let gruu: UInt16 = 0x6772
        /// The last four bytes of a `pn-purr` block, after four bytes of the number of the 200.
        static let purr: UInt32 = 0x7075_7272
        /// The last four bytes of a GRUU from older versions, in which four bytes of the Call-ID's hash come before,
        /// and no number of the 200.
        static let formerGRUU: UInt32 = 0x6772_7575
    }

    /// The bits of the Call-ID's hash in a temporary GRUU.
    package static let callIDMask: UInt32 = 0xff_ffff

    package func seal(_ name: SealedName) -> [23 of UInt8] {
        switch name {
        case .temporaryGRUU(let device, let callID, let answer):
            let numbers = UInt64(callID & Self.callIDMask) << 40 | UInt64(answer & 0xff_ffff) << 16
            return sealBlock(device.rawValue, numbers | UInt64(Purpose.gruu))
        case .purr(let device, let answer):
            return sealBlock(device.rawValue, UInt64(answer) << 32 | UInt64(Purpose.purr))
        }
    }

    /// The device of a temporary GRUU, and the bits of the Call-ID's hash in the GRUU.
    ///
    /// A forged GRUU names no device, because device id, Call-ID and purpose would all have to match.
    package func openTemporaryGRUU(_ text: ByteString) -> (device: DeviceID, callID: UInt32)? {
        guard let (high, low) = openBlock(text) else { return nil }
        if UInt16(truncatingIfNeeded: low) == Purpose.gruu {
            return (DeviceID(rawValue: high), UInt32(truncatingIfNeeded: low >> 40))
        }
        guard UInt32(truncatingIfNeeded: low) == Purpose.formerGRUU else { return nil }
        return (DeviceID(rawValue: high), UInt32(truncatingIfNeeded: low >> 32) & Self.callIDMask)
    }

    /// The device that a `pn-purr` names.
    package func openPURR(_ text: ByteString) -> DeviceID? {
        guard let (high, low) = openBlock(text), UInt32(truncatingIfNeeded: low) == Purpose.purr else { return nil }
        return DeviceID(rawValue: high)
    }
}
