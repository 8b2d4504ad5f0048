package import Addressing
package import Bytes
package import Timekeeping

/// An AOR's contact with what a REGISTER said about it (RFC 3261 section 10), as it was when ``BindingTable`` was asked.
///
/// All its text is one block of memory, which the texts that are read from it share.
package struct Binding: Sendable {
    package let id: DeviceID
    /// When the granted time ends. A push contact stays beyond that (rule R7, reading A8).
    package let freshUntil: Instant
    /// When the device last named this token. What a provider said about the token before that does not count.
    package let registeredAt: UnixTime
    /// Where its last REGISTER came from, and where requests go.
    package let flow: Flow
    /// The `q` value in thousandths; 1000 when the device gave none.
    package let q: UInt16
    /// The number of the push provider in ``ProviderSet``; 0 for an ordinary contact.
    let provider: UInt8
    let marks: Marks
    package let cseq: UInt32
    /// Seconds granted by its last REGISTER.
    package let granted: UInt32
    private let block: ByteString
    private let userLength: UInt16
    private let pathLength: UInt16
    private let contactRange: Range<Int>

    /// - Parameters:
    ///   - record: has everything but the flow and the texts.
    ///   - flow: where requests go.
    ///   - text: user, host, contact, Call-ID and Path.
    ///   - contact: where the contact stands in the text.
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
        /// A plan that names this binding is being written to the store. Nobody else may remove the binding until then.
        static let isBusy = Marks(rawValue: 1)
        /// Its push parameters do not make it a push contact, as they are a query, name an unknown service, or another
        /// proxy pushes. Each REGISTER has to be judged anew, even if its text is the same.
        static let needsReview = Marks(rawValue: 2)
        /// The contact has `+sip.pnsreg`.
        static let refreshesItself = Marks(rawValue: 4)
        /// It is known by a report alone and has no flow.
        static let isUnreachable = Marks(rawValue: 8)
        /// The contact has the label that it was reported with.
        static let hasLabel = Marks(rawValue: 16)
        /// It is one of perhaps several flows to its device, see ``RegistrationFlow``.
        static let isFlow = Marks(rawValue: 32)
        /// Nothing came back by it when it was last tried.
        static let hasFailed = Marks(rawValue: 64)
        /// Its phone was asked by a push to register before its granted time is over.
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

    /// The Path values of the REGISTER, first one topmost (RFC 3327).
    package var path: [ByteString] {
        let path = joinedPath
        return path.isEmpty ? [] : path.split(at: [Self.pathSeparator])
    }

    /// The Path values as ``joined(_:)`` makes them.
    var joinedPath: ByteString { block[block.count - Int(pathLength)..<block.count] }

    /// Stands between Path values. Without its folds no header field value holds a line end.
    static let pathSeparator = UInt8(ascii: "\n")
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
