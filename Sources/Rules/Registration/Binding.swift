package import Addressing
package import Bytes
package import Timekeeping

/// A copy of one binding of ``BindingTable``: a contact of an AOR with the values of its last REGISTER (RFC 3261
/// section 10).
///
/// All texts of a binding are in one block of memory.
package struct Binding: Sendable {
    package let id: DeviceID
    /// The end of the granted time. A push contact is kept after this time (rule R7, reading A8).
    package let freshUntil: Instant
    /// The time at which the device last registered this token. Answers of a provider from before this time are
    /// ignored.
    package let registeredAt: UnixTime
    /// The flow of the last REGISTER, on which requests are sent to the device.
    package let flow: Flow
    /// The `q` value in thousandths; 1000 if the device sent none.
    package let q: UInt16
    /// The number of the push provider in ``ProviderSet``; 0 for a contact without push token.
    let provider: UInt8
    let marks: Marks
    package let cseq: UInt32
    /// The expiry that the last REGISTER was granted, in seconds.
    package let granted: UInt32
    private let block: ByteString
    private let userLength: UInt16
    private let pathLength: UInt16
    private let contactRange: Range<Int>

    /// Creates the copy.
    ///
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
        /// A plan that changes this binding is being persisted, so no other operation may remove the binding.
        static let isBusy = Marks(rawValue: 1)
        /// The contact has push parameters, but is no push contact: they only ask for the services, name an unknown
        /// service, or another proxy sends the pushes. The contact of each REGISTER is examined again, even if its text
        /// is the same.
        static let needsReview = Marks(rawValue: 2)
        /// The contact has `+sip.pnsreg`, which means that the device wakes by itself to refresh.
        static let refreshesItself = Marks(rawValue: 4)
        /// The device is known only from a report over HTTP, and has no flow.
        static let isUnreachable = Marks(rawValue: 8)
        /// The stored contact also has the label with which the device was reported over HTTP.
        static let hasLabel = Marks(rawValue: 16)
        /// The binding is a flow of RFC 5626, so that its device may have several flows, see ``RegistrationFlow``.
        static let isFlow = Marks(rawValue: 32)
        /// The last request on this flow got no response.
        static let hasFailed = Marks(rawValue: 64)
        /// A refresh push was sent to the phone, so that it registers before the granted time ends.
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

    /// The separator of Path values. A value cannot contain it, because a header field value without folds contains no
    /// line end.
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

    /// The values of this binding with another contact.
    func content(with contact: ByteString) -> Content {
        Content(
            aor: aor, contact: contact, callID: callID, path: path, flow: flow, cseq: cseq, granted: granted,
            freshUntil: freshUntil, registeredAt: registeredAt, q: q, provider: provider, marks: marks)
    }

    /// The Path values in the form of a binding's block, with folds replaced by spaces.
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
