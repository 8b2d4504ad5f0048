import Bytes
import Collections

/// Stores text that many contacts have in common only once, in shared frames, to save memory. A ``Frame`` has the host
/// of the AOR, and the parts of a contact that many phones have in common.
///
/// The parts of a contact that belong to one phone are its address, push token and name, and values that are neither
/// short words nor numbers. A binding stores the phone's own parts of the contact, and the number of the frame with the
/// common parts. The phone's own parts and the frame together give the exact text of the contact.
struct ContactFrames: Sendable {
    /// The number of the frame that fits every contact; the binding then stores the whole contact and the host itself.
    static let whole: UInt16 = 0

    /// The maximum number of frames. When so many frames exist, a new contact that matches no frame is stored
    /// completely.
    private static let limit = 1024

    /// The text that many contacts have in common. ``Frame`` is a class for speed: each use of a structure would count
    /// references to all its parts.
    final class Frame: Sendable {
        fileprivate let host: [UInt8]
        /// The text of the contact without the phone's own parts.
        fileprivate let text: [UInt8]
        /// The indexes in ``text`` at which the phone's own parts are inserted.
        fileprivate let places: [UInt16]

        fileprivate init(host: [UInt8], text: [UInt8], places: [UInt16]) {
            self.host = host
            self.text = text
            self.places = places
        }
    }

    private var frames = [Frame(host: [], text: [], places: [0])]
    /// The numbers of the frames, by the hashes of the frames.
    private var index = SlotIndex()
    /// The number of the latest contact's frame; the frame probably fits the next contact too.
    private var last = ContactFrames.whole

    subscript(number: UInt16) -> Frame { frames[Int(number)] }

    /// Appends the phone's own parts of a contact to `own`; for the frame ``whole``, the whole contact and the host.
    ///
    /// - Returns: the number of the frame with the contact's common parts.
    mutating func fold(_ contact: Span<UInt8>, host: Span<UInt8>, into own: inout [UInt8]) -> UInt16 {
        let cut = ContactCut(contact)
        let number = number(of: contact, cut, host: host)
        if number == Self.whole {
            own.append(lengthOf: contact.count)
            own.append(contact)
            own.append(host)
        } else {
            for part in 0..<cut.count {
                let range = cut[part]
                own.append(lengthOf: range.count)
                own.append(contact.extracting(range))
            }
        }
        return number
    }

    private mutating func number(of contact: Span<UInt8>, _ cut: ContactCut, host: Span<UInt8>) -> UInt16 {
        guard cut.count > 0, !host.isEmpty else { return Self.whole }
        if last != Self.whole, frames[Int(last)].isFrame(of: contact, cut, host: host) { return last }
        let frame = Frame(contact, cut, host: host)
        let hash = frame.hash
        if let number = index.find(hash: hash, where: { frames[Int($0)].isFrame(of: contact, cut, host: host) }) {
            last = UInt16(truncatingIfNeeded: number)
        } else if frames.count < Self.limit {
            last = UInt16(truncatingIfNeeded: frames.count)
            index.insert(hash: hash, slot: UInt32(last))
            frames.append(frame)
        } else {
            return Self.whole
        }
        return last
    }
}

extension ContactFrames.Frame {
    fileprivate convenience init(_ contact: Span<UInt8>, _ cut: ContactCut, host: Span<UInt8>) {
        var (text, places, start) = ([UInt8](), [UInt16](), 0)
        for part in 0..<cut.count {
            text.append(contact.extracting(start..<cut[part].lowerBound))
            places.append(UInt16(truncatingIfNeeded: text.count))
            start = cut[part].upperBound
        }
        text.append(contact.extracting(start...))
        self.init(host: ByteString(copying: host).array, text: text, places: places)
    }

    fileprivate var hash: UInt32 {
        var hasher = Hasher()
        hasher.combine(host)
        hasher.combine(text)
        hasher.combine(places)
        return UInt32(truncatingIfNeeded: hasher.finalize())
    }

    fileprivate func isFrame(of contact: Span<UInt8>, _ cut: ContactCut, host: Span<UInt8>) -> Bool {
        let (ownHost, text) = (self.host, text)
        guard places.count == cut.count, ownHost.span.hasSameBytes(as: host) else { return false }
        var (start, place) = (0, 0)
        for part in 0..<cut.count {
            let (end, common) = (Int(places[part]), cut[part].lowerBound - start)
            guard end - place == common,
                text.span.extracting(place..<end).hasSameBytes(as: contact.extracting(start..<start + common))
            else { return false }
            (start, place) = (cut[part].upperBound, end)
        }
        return text.span.extracting(place...).hasSameBytes(as: contact.extracting(start...))
    }

    var count: Int { host.count + text.count }

    func withHost<Result>(_ own: Span<UInt8>, _ body: (Span<UInt8>) -> Result) -> Result {
        let host = host
        guard host.isEmpty else { return body(host.span) }
        var index = 0
        let length = own.length(from: &index)
        return body(own.extracting((index + length)...))
    }

    /// Calls `body` with each part of the contact, in order, until `body` returns false.
    ///
    /// - Returns: whether `body` got all parts.
    func allParts(with own: Span<UInt8>, _ body: (Span<UInt8>) -> Bool) -> Bool {
        let text = text
        var (place, index) = (0, 0)
        for end in places {
            if place < end, !body(text.span.extracting(place..<Int(end))) { return false }
            place = Int(end)
            let length = own.length(from: &index)
            guard body(own.extracting(index..<index + length)) else { return false }
            index += length
        }
        return place == text.count || body(text.span.extracting(place...))
    }

    func has(_ contact: Span<UInt8>, with own: Span<UInt8>) -> Bool {
        var rest = 0
        let hasParts = allParts(with: own) { part in
            guard part.count <= contact.count - rest,
                part.hasSameBytes(as: contact.extracting(rest..<rest + part.count))
            else { return false }
            rest += part.count
            return true
        }
        return hasParts && rest == contact.count
    }
}

/// The ranges of the phone's own parts in a contact. A semicolon inside quotes is also treated as a separator, which is
/// harmless.
private struct ContactCut {
    private(set) var count = 0
    private var starts: [6 of UInt16] = .init(repeating: 0)
    private var ends: [6 of UInt16] = .init(repeating: 0)

    /// The minimum length in bytes of a parameter value that is treated as the phone's own part. A shorter value is
    /// kept in the frame, because many contacts have the same value.
    private static let shortest = 6

    init(_ contact: Span<UInt8>) {
        guard contact.count <= ContactText.longest else { return }
        var start = 0
        var isAddress = true
        while start < contact.count, count < 6 {
            let end = contact.firstIndex(of: UInt8(ascii: ";"), in: start..<contact.count) ?? contact.count
            if isAddress {
                add(start..<end)
            } else if !contact.hasApp(at: start),
                let equals = contact.firstIndex(of: UInt8(ascii: "="), in: start..<end),
                end - equals > Self.shortest, !contact.isDecimal(in: equals + 1..<end)
            {
                add(equals + 1..<end)
            }
            isAddress = false
            start = end + 1
        }
    }

    private mutating func add(_ range: Range<Int>) {
        starts[count] = UInt16(truncatingIfNeeded: range.lowerBound)
        ends[count] = UInt16(truncatingIfNeeded: range.upperBound)
        count += 1
    }

    subscript(part: Int) -> Range<Int> { Int(starts[part])..<Int(ends[part]) }
}

extension Span<UInt8> {
    /// Whether the parameter `pn-param` begins at the index `start`. The value of `pn-param` names the app, so many
    /// phones have the same value.
    fileprivate func hasApp(at start: Int) -> Bool {
        start + 8 <= count && equalsIgnoringCase(start..<start + 8, "pn-param")
    }

    /// Whether the bytes in the range are a decimal number, which many contacts have in common.
    fileprivate func isDecimal(in range: Range<Int>) -> Bool {
        for index in range where !self[index].isASCIIDigit { return false }
        return true
    }

    /// Reads a length in the form that ``Swift/Array/append(lengthOf:)`` writes.
    fileprivate func length(from index: inout Int) -> Int {
        let low = self[index]
        index += 1
        guard low >= 0x80 else { return Int(low) }
        defer { index += 1 }
        return Int(low & 0x7f) << 8 | Int(self[index])
    }
}

extension [UInt8] {
    /// Appends a length: as one byte below 128, otherwise as two bytes.
    fileprivate mutating func append(lengthOf count: Int) {
        if count < 0x80 {
            append(UInt8(truncatingIfNeeded: count))
        } else {
            append(UInt8(truncatingIfNeeded: count >> 8) | 0x80)
            append(UInt8(truncatingIfNeeded: count))
        }
    }
}
