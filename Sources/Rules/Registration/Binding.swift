package import Addressing
package import Bytes
package import Timekeeping

/// A copy of one binding in ``BindingTable``: a contact of an AOR with the values of its last REGISTER (RFC 3261
/// section 10).
///
/// All texts of the binding are in one memory block.
package struct Binding: Sendable {
    package let id: DeviceID
    /// The instant at which the granted expiry of the last REGISTER ends. A contact with push token is kept after its
    /// granted expiry (rule R7, reading A8).
    package let freshUntil: Instant
    /// The time at which the device last registered its push token. If a provider reports that the token died before
    /// this time, the report is ignored.
    package let registeredAt: UnixTime
    /// The flow of the contact's last REGISTER, on which requests to the device are sent.
    package let flow: Flow
    /// The contact's parameter `q` in thousandths; 1000 if the device sent none.
    package let q: UInt16
    /// The number of the push provider (see ``PushProvider/number``); 0 for a contact without push token.
    let provider: UInt8
    let marks: Marks
    package let cseq: UInt32
    /// The granted expiry of the last REGISTER, in seconds.
    package let granted: UInt32
    /// The nonce with which the device can register without a new challenge.
    let nonce: KeptNonce
    private let block: ByteString
    private let userLength: UInt16
    private let pathLength: UInt16
    private let contactRange: Range<Int>

    /// Creates a complete copy of a binding, for use outside the table.
    ///
    /// - Parameters:
    ///   - record: the binding as the table stores it, without the flow and the texts.
    ///   - flow: the flow on which requests are sent to the device.
    ///   - text: user, host, contact, Call-ID and Path, one after the other.
    ///   - contact: the range of the contact in `text`.
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
        nonce = record.nonce
        block = text
        userLength = record.userLength
        pathLength = record.pathLength
        contactRange = contact
    }

    struct Marks: OptionSet {
        let rawValue: UInt8
        /// The store is writing a change of the binding, so no other operation may remove the binding.
        static let isBusy = Marks(rawValue: 1)
        /// Each REGISTER of the contact is examined completely, even if the contact's text is unchanged. The mark is
        /// set if the push parameters are a query, name an unknown provider, or do not fit the settings. The mark is
        /// also set if another proxy sends the pushes.
        static let needsReview = Marks(rawValue: 2)
        /// The contact has `+sip.pnsreg`, so the device wakes up by itself to refresh its registration.
        static let refreshesItself = Marks(rawValue: 4)
        /// The daemon knows the device only from a report over HTTP, and has no flow to the device.
        static let isUnreachable = Marks(rawValue: 8)
        /// The stored contact ends with the label from a report about the device over HTTP.
        static let hasLabel = Marks(rawValue: 16)
        /// The binding is a flow of RFC 5626 (see ``RegistrationFlow``), so its device can have several bindings.
        static let isFlow = Marks(rawValue: 32)
        /// The last request on the flow got no response.
        static let hasFailed = Marks(rawValue: 64)
        /// The phone got a refresh push, which makes the phone register before its granted expiry.
        static let wasAskedToRefresh = Marks(rawValue: 128)
    }
}

// MARK: Text

extension Binding {
    package var aor: AddressOfRecord {
        AddressOfRecord(
            user: block[0..<Int(userLength)], host: block[Int(userLength)..<contactRange.lowerBound])
    }

    /// The contact's text as bindings store it: see ``ContactText``.
    package var contact: ByteString { block[contactRange] }
    package var callID: ByteString { block[contactRange.upperBound..<block.count - Int(pathLength)] }

    /// The Path values of the last REGISTER, topmost first (RFC 3327).
    package var path: [ByteString] {
        let path = joinedPath
        return path.isEmpty ? [] : path.split(at: [Self.pathSeparator])
    }

    /// The Path values of the last REGISTER as one text, in the form of ``joined(_:)``.
    var joinedPath: ByteString { block[block.count - Int(pathLength)..<block.count] }

    /// The separator of Path values in one text; Path values never contain the separator, because folds are removed.
    static let pathSeparator = UInt8(ascii: "\n")
}

// MARK: Making

extension Binding {
    /// The values of one contact in a REGISTER; their texts can be slices of the message.
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
        var nonce = KeptNonce.none
    }

    /// The values of the binding, but with `contact` in place of the binding's own contact.
    func content(with contact: ByteString) -> Content {
        Content(
            aor: aor, contact: contact, callID: callID, path: path, flow: flow, cseq: cseq, granted: granted,
            freshUntil: freshUntil, registeredAt: registeredAt, q: q, provider: provider, marks: marks,
            nonce: nonce)
    }

    /// Joins Path values to one text with ``pathSeparator``, and replaces folds by spaces.
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
