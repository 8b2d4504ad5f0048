package import Addressing
package import Bytes
import Collections
import Registration

/// Remembers the phones in dialogs, so that an INVITE with Replaces finds its phone (RFC 3891, RFC 8599 section 7).
///
/// If the table of dialogs is full, the oldest dialog is removed. The table of dialogs is lost when the process ends.
/// An INVITE whose Replaces names no known phone is sent to all devices of the user.
package struct DialogDevices {
    private let limit: Int
    private var devices: [Int: DeviceID] = [:]
    private var order = Queue<Int>()

    package init(limit: Int = 65_536) { self.limit = limit }

    /// Notes that a phone takes part in the dialog with the given Call-ID; `tag` is the phone's tag.
    package mutating func note(_ device: DeviceID, callID: ByteString, tag: ByteString) {
        let key = Self.key(callID, tag)
        // The table gets all its memory at the first dialog, because growing the table later takes milliseconds.
        if order.isEmpty { devices.reserveCapacity(limit + 1) }
        guard devices.updateValue(device, forKey: key) == nil else { return }
        order.append(key)
        while order.count > limit, let oldest = order.popFirst() { devices[oldest] = nil }
    }

    /// The phone whose dialog a Replaces header field names, by the Call-ID and the phone's tag as to-tag.
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

    /// The key of a dialog: a randomly seeded hash, so that a peer cannot make two dialogs collide.
    private static func key(_ callID: ByteString, _ tag: ByteString) -> Int {
        var hasher = Hasher()
        hasher.combine(callID)
        hasher.combine(tag)
        return hasher.finalize()
    }
}
