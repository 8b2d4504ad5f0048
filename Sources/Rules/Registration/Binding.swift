package import Addressing
package import Bytes
package import Timekeeping

/// A copy of one binding of ``BindingTable``: a contact of an AOR with the values of its last REGISTER (RFC 3261
/// section 10).
///
/// All texts of a binding share one block of memory.
package struct Binding: Sendable {
    package let id: DeviceID
    /// When the granted time ends. A push contact stays after that time (rule R7, reading A8).
    package let freshUntil: Instant
    /// When the device last registered this token. A provider's earlier answers about the token are ignored.
    package let registeredAt: UnixTime
    /// The source of the last REGISTER, and the destination of requests to the device.
    package let flow: Flow
    /// The `q` value in thousandths; 1000 if the device sent none.
    package let q: UInt16
    /// The number of the push provider in ``ProviderSet``; 0 for an ordinary contact.
    let provider: UInt8
    let marks: Marks
    package let cseq: UInt32
    /// The expiry that the last REGISTER was granted, in seconds.
    package let granted: UInt32
    private let block: ByteString
    private let userLength: UInt16
    private let pathLength: UInt16
    private let contactRange: Range<Int>

    /// - Parameters:
    ///   - record: all values except the flow and the texts.
    ///   - flow: the destination of requests.
    ///   - text: user, host, contact, Call-ID and Path.
    ///   - contact: the range of the contact in the text.
    init(_ record: BindingRecord, flow: Flow, text: ByteString, contact: Range<Int>) {
        id = record.id
        freshUntil = record.freshUntil
        registeredAt = record.registeredAt
        self.flow = flow
        q = record.q
        provider = record.provider
        marks = record.marks
        cseq = record.cseq
        granted = record.granted
        block = text
        userLength = record.userLength
        pathLength = record.pathLength
        contactRange = contact
    }

    struct Marks: OptionSet {
        let rawValue: UInt8
        /// A plan that names this binding is being persisted. No other operation may remove the binding until then.
        static let isBusy = Marks(rawValue: 1)
        /// The push parameters do not make this a push contact: they are a query, name an unknown service, or another
        /// proxy sends the pushes. Each REGISTER is judged again, even if its text is the same.
        static let needsReview = Marks(rawValue: 2)
        /// The contact has `+sip.pnsreg`.
        static let refreshesItself = Marks(rawValue: 4)
        /// The device was only reported over HTTP, and has no flow.
        static let isUnreachable = Marks(rawValue: 8)
        /// The contact has the label that it was reported with.
        static let hasLabel = Marks(rawValue: 16)
        /// The binding is one of possibly several flows to its device, see ``RegistrationFlow``.
        static let isFlow = Marks(rawValue: 32)
        /// The last request on this flow got no answer.
        static let hasFailed = Marks(rawValue: 64)
        /// A push asked its phone to register before the granted time ends.
        static let wasAskedToRefresh = Marks(rawValue: 128)
    }
}

// MARK: Text

extension Binding {
    package var aor: AddressOfRecord {
        AddressOfRecord(
            user: block[0..<Int(userLength)], host: block[Int(userLength)..<contactRange.lowerBound])
    }

    /// The contact, in the form of ``ContactText``.
    package var contact: ByteString { block[contactRange] }
    package var callID: ByteString { block[contactRange.upperBound..<block.count - Int(pathLength)] }

    /// The Path values of the REGISTER, topmost first (RFC 3327).
    package var path: [ByteString] {
        let path = joinedPath
        return path.isEmpty ? [] : path.split(at: [Self.pathSeparator])
    }

    /// The Path values in the form of ``joined(_:)``.
    var joinedPath: ByteString { block[block.count - Int(pathLength)..<block.count] }

    /// Separates Path values. A header field value without folds contains no line end.
    static let pathSeparator = UInt8(ascii: "\n")
}

// MARK: Making

extension Binding {
    /// The values of one contact of a REGISTER. The texts may be slices of the message.
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

    /// The Path values in the form of the block, with folds replaced by spaces.
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
