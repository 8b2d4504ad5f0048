package import Addressing
package import Bytes
import Collections
import Registration

/// Remembers our users' phones by dialog, so that an INVITE with Replaces finds the right phone (RFC 3891, RFC 8599
/// section 7).
///
/// When the table is full, it forgets its oldest dialog. At the end of the process, it forgets all dialogs. An INVITE
/// whose Replaces finds no phone goes to all devices of its user, like any other INVITE.
package struct DialogDevices {
    private let limit: Int
    private var devices: [Int: DeviceID] = [:]
    private var order = Queue<Int>()

    package init(limit: Int = 65_536) { self.limit = limit }

    /// - Parameters:
    ///   - device: the phone.
    ///   - callID: the dialog's Call-ID.
    ///   - tag: the phone's own tag in the dialog.
    package mutating func note(_ device: DeviceID, callID: ByteString, tag: ByteString) {
        let key = Self.key(callID, tag)
        // All room is reserved at once, because moving tens of thousands of entries into a larger table takes
        // milliseconds.
        if order.isEmpty { devices.reserveCapacity(limit + 1) }
        guard devices.updateValue(device, forKey: key) == nil else { return }
        order.append(key)
        while order.count > limit, let oldest = order.popFirst() { devices[oldest] = nil }
    }

    /// The phone whose dialog a Replaces value names. The value has the Call-ID and, as to-tag, the phone's own tag.
    package func device(replacedBy value: ByteString) -> DeviceID? {
        let end = value.firstIndex(of: UInt8(ascii: ";")) ?? value.count
        var tag: ByteString?
        for parameter in value[end..<value.count].split(at: [UInt8(ascii: ";")]) {
            guard let equals = parameter.firstIndex(of: UInt8(ascii: "=")),
                parameter[0..<equals].trimmed().equalsIgnoringCase("to-tag")
            else { continue }
            tag = parameter[equals + 1..<parameter.count].trimmed()
        }
        return tag.flatMap { devices[Self.key(value[0..<end].trimmed(), $0)] }
    }

    /// Hashes texts that a peer chooses. The hash is seeded, so a peer cannot make two texts collide.
    private static func key(_ callID: ByteString, _ tag: ByteString) -> Int {
        var hasher = Hasher()
        hasher.combine(callID)
        hasher.combine(tag)
        return hasher.finalize()
    }
}
