import Addressing
import Bytes
import Timekeeping

/// A binding in a compact form, because ``BindingTable`` can have a million bindings.
///
/// One memory block has the binding's texts in this order: flow, user, Call-ID, Path, and the contact's own parts. The
/// parts of a contact that many bindings have in common are in a shared ``ContactFrames/Frame``.
struct BindingRecord: Sendable {
    let id: DeviceID
    var freshUntil: Instant
    var registeredAt: UnixTime
    var cseq: UInt32
    var granted: UInt32
    /// The slot of the next binding of the AOR; ``BindingTable/noSlot`` after the last binding.
    var next = BindingTable.noSlot
    var block: ByteSlabs.Place
    let frame: UInt16
    let userLength: UInt16
    let callIDLength: UInt16
    let pathLength: UInt16
    let q: UInt16
    var flowLength: UInt8
    let provider: UInt8
    var marks: Binding.Marks
    /// The difference between the nonce count in the store and ``nonceCount``.
    private var nonceAhead: UInt8 = 0
    private var nonceCount: UInt32 = 0
    private var nonceName: UInt64 = 0

    init(
        id: DeviceID, freshUntil: Instant, registeredAt: UnixTime, cseq: UInt32, granted: UInt32,
        next: UInt32 = BindingTable.noSlot, block: ByteSlabs.Place, frame: UInt16, userLength: UInt16,
        callIDLength: UInt16, pathLength: UInt16, q: UInt16, flowLength: UInt8, provider: UInt8,
        marks: Binding.Marks, nonce: KeptNonce = .none
    ) {
        self.id = id
        self.freshUntil = freshUntil
        self.registeredAt = registeredAt
        self.cseq = cseq
        self.granted = granted
        self.next = next
        self.block = block
        self.frame = frame
        self.userLength = userLength
        self.callIDLength = callIDLength
        self.pathLength = pathLength
        self.q = q
        self.flowLength = flowLength
        self.provider = provider
        self.marks = marks
        self.nonce = nonce
    }

    /// The nonce with which the device can register without a new challenge.
    var nonce: KeptNonce {
        get {
            KeptNonce(name: nonceName, count: nonceCount, stored: nonceCount &+ UInt32(nonceAhead))
        }
        set {
            nonceName = newValue.name
            nonceCount = newValue.count
            nonceAhead = UInt8(truncatingIfNeeded: newValue.stored &- newValue.count)
        }
    }

    var isVacant: Bool { id.rawValue == 0 }

    static func vacant(next: UInt32) -> BindingRecord {
        BindingRecord(
            id: DeviceID(rawValue: 0), freshUntil: .distantPast, registeredAt: UnixTime(milliseconds: 0), cseq: 0,
            granted: 0, next: next, block: .none, frame: ContactFrames.whole, userLength: 0, callIDLength: 0,
            pathLength: 0, q: 0, flowLength: 0, provider: 0, marks: [])
    }

    var userRange: Range<Int> { Int(flowLength)..<Int(flowLength) + Int(userLength) }
    var callIDRange: Range<Int> { userRange.upperBound..<userRange.upperBound + Int(callIDLength) }
    var pathRange: Range<Int> { callIDRange.upperBound..<callIDRange.upperBound + Int(pathLength) }
    /// The range of the contact's own parts in the memory block, up to the end of the block.
    var ownRange: Range<Int> { pathRange.upperBound..<Int(block.count) }
}

// MARK: Writing

extension BindingTable {
    /// Creates the record of a binding, and the memory block with its texts.
    ///
    /// - Returns: the record; `nil` if a text of the binding is too long. The daemon's earlier checks prevent such
    ///   texts.
    mutating func makeRecord(_ id: DeviceID, _ content: Binding.Content) -> BindingRecord? {
        guard content.contact.count <= ContactText.longest else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(content.contact.count + content.aor.user.count + content.callID.count + 64)
        content.flow.pack(into: &bytes)
        let flowLength = bytes.count
        bytes.append(content.aor.user)
        bytes.append(content.callID)
        let path = Binding.joined(content.path)
        bytes.append(path)
        let frame = content.contact.withSpan { contact in
            content.aor.host.withSpan { frames.fold(contact, host: $0, into: &bytes) }
        }
        var marks = content.marks.subtracting([.isUnreachable, .hasLabel])
        if content.flow == .nowhere { marks.insert(.isUnreachable) }
        if content.contact.withSpan({ ContactText.markStart(in: $0) }) != nil { marks.insert(.hasLabel) }
        // The lengths of all parts fit into their fields if the memory block could be added.
        guard let block = blocks.add(bytes.span) else { return nil }
        return BindingRecord(
            id: id, freshUntil: content.freshUntil, registeredAt: content.registeredAt, cseq: content.cseq,
            granted: content.granted, block: block, frame: frame,
            userLength: UInt16(truncatingIfNeeded: content.aor.user.count),
            callIDLength: UInt16(truncatingIfNeeded: content.callID.count),
            pathLength: UInt16(truncatingIfNeeded: path.count), q: content.q,
            flowLength: UInt8(truncatingIfNeeded: flowLength), provider: content.provider, marks: marks,
            nonce: content.nonce)
    }
}

extension BindingTable {
    /// Replaces the flow of the binding in a slot.
    mutating func setFlow(_ flow: Flow, at slot: UInt32) {
        var bytes: [UInt8] = []
        flow.pack(into: &bytes)
        let flowLength = UInt8(truncatingIfNeeded: bytes.count)
        let old = self[slot]
        blocks.withBytes(old.block) { bytes.append($0.extracting(Int(old.flowLength)...)) }
        guard let block = blocks.add(bytes.span) else { return }
        blocks.remove(old.block)
        self[slot].block = block
        self[slot].flowLength = flowLength
    }
}

// MARK: Reading

extension BindingTable {
    /// The binding in a slot, with its texts joined from the memory block and the frame.
    func binding(at slot: UInt32) -> Binding {
        let record = self[slot]
        return blocks.withBytes(record.block) { bytes in
            let own = bytes.extracting(record.ownRange)
            var index = 0
            var text = ByteStringWriter(capacity: bytes.count + frames[record.frame].count)
            text.append(bytes.extracting(record.userRange))
            frames[record.frame].withHost(own) { text.append($0) }
            let contactStart = text.count
            _ = frames[record.frame].allParts(with: own) { part in
                text.append(part)
                return true
            }
            let contactEnd = text.count
            text.append(bytes.extracting(record.userRange.upperBound..<record.pathRange.upperBound))
            return Binding(
                record, flow: Flow(packed: bytes, from: &index) ?? .nowhere, text: text.finish(),
                contact: contactStart..<contactEnd)
        }
    }

    func flow(at slot: UInt32) -> Flow {
        blocks.withBytes(self[slot].block) { bytes in
            var index = 0
            return Flow(packed: bytes, from: &index) ?? .nowhere
        }
    }

    func aor(at slot: UInt32) -> AddressOfRecord {
        let record = self[slot]
        return blocks.withBytes(record.block) { bytes in
            let user = ByteString(copying: bytes.extracting(record.userRange))
            return frames[record.frame].withHost(bytes.extracting(record.ownRange)) { host in
                AddressOfRecord(user: user, host: ByteString(copying: host))
            }
        }
    }

    func isOf(_ aor: AddressOfRecord, at slot: UInt32) -> Bool {
        let record = self[slot]
        return blocks.withBytes(record.block) { bytes in
            guard aor.user.hasSameBytes(as: bytes.extracting(record.userRange)) else { return false }
            return frames[record.frame].withHost(bytes.extracting(record.ownRange)) { aor.host.hasSameBytes(as: $0) }
        }
    }

    func has(callID: ByteString, at slot: UInt32) -> Bool {
        let record = self[slot]
        guard Int(record.callIDLength) == callID.count else { return false }
        return blocks.withBytes(record.block) { callID.hasSameBytes(as: $0.extracting(record.callIDRange)) }
    }

    func has(contact: ByteString, at slot: UInt32) -> Bool {
        let record = self[slot]
        return blocks.withBytes(record.block) { bytes in
            contact.withSpan { frames[record.frame].has($0, with: bytes.extracting(record.ownRange)) }
        }
    }

    /// Calls `body` with each part of the contact, in order, until `body` returns false.
    ///
    /// - Returns: whether `body` got all parts.
    func allContactParts(at slot: UInt32, _ body: (Span<UInt8>) -> Bool) -> Bool {
        let record = self[slot]
        return blocks.withBytes(record.block) {
            frames[record.frame].allParts(with: $0.extracting(record.ownRange), body)
        }
    }
}

extension ByteString {
    fileprivate func hasSameBytes(as other: Span<UInt8>) -> Bool {
        count == other.count && withSpan { $0.hasSameBytes(as: other) }
    }
}
