package import Addressing
package import Bytes
package import Timekeeping

/// An AOR's contact with what a REGISTER said about it (RFC 3261 section 10).
///
/// There may be a million of them, so all text of a binding is packed into one block, in the order user, host, contact,
/// Call-ID, Path. The push token is read from the contact when it is needed. The accessors of text make copies.
package struct Binding: Sendable {
    package internal(set) var id: DeviceID
    var block: [UInt8]
    /// When the granted time ends. A push contact stays beyond that (rule R7, reading A8).
    package internal(set) var freshUntil: Instant
    /// When the device last named this token. What a provider said about the token before that does not count.
    package internal(set) var registeredAt: UnixTime
    /// Where its last REGISTER came from, and where requests go.
    package internal(set) var flow: Flow
    var userLength: UInt16
    var hostLength: UInt16
    var contactLength: UInt16
    var callIDLength: UInt16
    /// The `q` value in thousandths; 1000 when the device gave none.
    package internal(set) var q: UInt16
    /// The number of the push provider in ``ProviderSet``; 0 for an ordinary contact.
    var provider: UInt8
    var marks: Marks
    package internal(set) var cseq: UInt32
    /// Seconds granted by its last REGISTER.
    package internal(set) var granted: UInt32
    /// The slot of the AOR's next binding in the table; ``BindingTable/noSlot`` at the end.
    var next: UInt32 = BindingTable.noSlot

    struct Marks: OptionSet {
        let rawValue: UInt8
        /// A plan that names this binding is being written to the store. Nobody else may remove the binding until then.
        static let isBusy = Marks(rawValue: 1)
        /// Its push parameters do not make it a push contact, as they are a query, name an unknown service, or another
        /// proxy pushes. Each REGISTER has to be judged anew, even if its text is the same.
        static let needsReview = Marks(rawValue: 2)
        /// The contact has `+sip.pnsreg`.
        static let refreshesItself = Marks(rawValue: 4)
    }
}

// MARK: Text

extension Binding {
    package var aor: AddressOfRecord {
        AddressOfRecord(user: text(userRange), host: text(hostRange))
    }

    /// The contact, in the form of ``ContactText``.
    package var contact: ByteString { text(contactRange) }
    package var callID: ByteString { text(callIDRange) }

    /// The Path values of the REGISTER, first one topmost (RFC 3327).
    package var path: [ByteString] {
        let path = text(pathRange)
        return path.isEmpty ? [] : path.split(at: [Self.pathSeparator])
    }

    /// Stands between Path values. Without its folds no header field value holds a line end.
    static let pathSeparator = UInt8(ascii: "\n")

    var userRange: Range<Int> { 0..<Int(userLength) }
    var hostRange: Range<Int> { userRange.upperBound..<userRange.upperBound + Int(hostLength) }
    var contactRange: Range<Int> { hostRange.upperBound..<hostRange.upperBound + Int(contactLength) }
    var callIDRange: Range<Int> { contactRange.upperBound..<contactRange.upperBound + Int(callIDLength) }
    var pathRange: Range<Int> { callIDRange.upperBound..<max(callIDRange.upperBound, block.count) }

    private func text(_ range: Range<Int>) -> ByteString { ByteString(copying: block.span.extracting(range)) }

    func isOf(_ aor: AddressOfRecord) -> Bool { has(aor.user, at: userRange) && has(aor.host, at: hostRange) }

    func has(_ bytes: ByteString, at range: Range<Int>) -> Bool {
        guard bytes.count == range.count else { return false }
        let stored = block.span.extracting(range)
        return bytes.withSpan { $0.hasSameBytes(as: stored) }
    }
}

// MARK: Making

extension Binding {
    /// Everything a REGISTER says about one contact; the texts may be slices of the message.
    struct Content: Sendable {
        var aor: AddressOfRecord
        var contact: ByteString
        var callID: ByteString
        var path: [ByteString]
        var flow: Flow
        var cseq: UInt32
        var granted: UInt32
        var freshUntil: Instant
        var registeredAt: UnixTime
        var q: UInt16
        var provider: UInt8
        var marks: Marks
    }

    /// The same content with another contact.
    func content(with contact: ByteString) -> Content {
        Content(
            aor: aor, contact: contact, callID: callID, path: path, flow: flow, cseq: cseq, granted: granted,
            freshUntil: freshUntil, registeredAt: registeredAt, q: q, provider: provider, marks: marks)
    }

    /// - Returns: `nil` when a text is too long for the record. The caller has checked all texts that a peer can make long.
    init?(id: DeviceID, _ content: Content) {
        let path = Self.joined(content.path)
        guard let userLength = UInt16(exactly: content.aor.user.count),
            let hostLength = UInt16(exactly: content.aor.host.count),
            let contactLength = UInt16(exactly: content.contact.count),
            let callIDLength = UInt16(exactly: content.callID.count)
        else { return nil }
        var block: [UInt8] = []
        block.reserveCapacity(
            content.aor.user.count + content.aor.host.count + content.contact.count + content.callID.count
                + path.count)
        block.append(content.aor.user)
        block.append(content.aor.host)
        block.append(content.contact)
        block.append(content.callID)
        block.append(path)
        self.init(
            id: id, block: block, freshUntil: content.freshUntil, registeredAt: content.registeredAt,
            flow: content.flow, userLength: userLength, hostLength: hostLength, contactLength: contactLength,
            callIDLength: callIDLength, q: content.q, provider: content.provider, marks: content.marks,
            cseq: content.cseq, granted: content.granted)
    }

    /// The Path values as they are kept in the block, with folds replaced by spaces.
    static func joined(_ path: [ByteString]) -> ByteString {
        guard !path.isEmpty else { return .empty }
        var out: [UInt8] = []
        for value in path {
            if !out.isEmpty { out.append(pathSeparator) }
            out.append(unfolding: value)
        }
        return ByteString(copying: out.span)
    }
}
