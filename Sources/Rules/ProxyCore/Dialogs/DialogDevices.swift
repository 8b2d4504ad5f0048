import Addressing
import Bytes
import Collections
import Registration

/// Which of our users' phones are in which dialogs, so that an INVITE with Replaces finds the very phone (RFC 3891, RFC
/// 8599 section 7).
///
/// It forgets the oldest when it is full, and everything at the end of the process: such an INVITE then goes to all
/// devices of its user, as any other.
struct DialogDevices {
    private let limit: Int
    private var devices: [Int: DeviceID] = [:]
    private var order = Queue<Int>()

    init(limit: Int = 65_536) { self.limit = limit }

    /// - Parameters:
    ///   - device: the phone.
    ///   - callID: the dialog's Call-ID.
    ///   - tag: the phone's own tag in it.
    mutating func note(_ device: DeviceID, callID: ByteString, tag: ByteString) {
        let key = Self.key(callID, tag)
        // All of the room at once: to move tens of thousands of entries into a larger one takes milliseconds.
        if order.isEmpty { devices.reserveCapacity(limit + 1) }
        guard devices.updateValue(device, forKey: key) == nil else { return }
        order.append(key)
        while order.count > limit, let oldest = order.popFirst() { devices[oldest] = nil }
    }

    /// The phone whose dialog a Replaces value names: by the Call-ID and the to-tag, which is that phone's own.
    func device(replacedBy value: ByteString) -> DeviceID? {
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

    /// Of texts that a peer chooses, which cannot be made to collide since the hash is seeded.
    private static func key(_ callID: ByteString, _ tag: ByteString) -> Int {
        var hasher = Hasher()
        hasher.combine(callID)
        hasher.combine(tag)
        return hasher.finalize()
    }
}
