import Addressing
import Bytes
import Calling
import ProxyCore
import PushDelivery
import PushPlanning
import Registration
import SIPGrammar
import Timekeeping

// Reads and writes the values of journal entries. The reader and the writer of each type are next to each other.

/// Decodes the values of a journal entry. A missing value reads as an empty value and sets ``isBroken``.
struct JournalReader {
    private let source: [UInt8]
    private var place: Int
    private let end: Int
    /// Whether the reader found a missing or invalid value.
    private(set) var isBroken = false
    /// Whether the reader has read all bytes of the entry.
    var isAtEnd: Bool { place >= end }

    init(_ source: [UInt8], _ range: Range<Int>) {
        self.source = source
        place = range.lowerBound
        end = min(range.upperBound, source.count)
    }

    mutating func byte() -> UInt8 {
        guard place < end else {
            isBroken = true
            return 0
        }
        place += 1
        return source[place - 1]
    }

    mutating func number(bytes count: Int = 8) -> UInt64 {
        var number: UInt64 = 0
        for _ in 0..<count { number = number << 8 | UInt64(byte()) }
        return number
    }

    mutating func number32() -> UInt32 { UInt32(truncatingIfNeeded: number(bytes: 4)) }

    /// Reads a byte string and copies it, because a slice would keep the whole file in memory.
    mutating func bytes() -> ByteString {
        let count = Int(number32())
        guard count <= end - place else {
            isBroken = true
            return .empty
        }
        defer { place += count }
        return ByteString(copying: source.span.extracting(place..<place + count))
    }

    mutating func list<Value>(_ value: (inout JournalReader) -> Value?) -> [Value] {
        var values: [Value] = []
        for _ in 0..<number(bytes: 2) {
            guard !isBroken, let value = value(&self) else {
                isBroken = true
                return values
            }
            values.append(value)
        }
        return values
    }

    private mutating func date() -> UnixTime { UnixTime(milliseconds: Int64(bitPattern: number())) }
}

extension ByteSink {
    fileprivate mutating func append(counted bytes: ByteString) {
        append(big: UInt64(bytes.count), count: 4)
        append(bytes)
    }

    fileprivate mutating func append<Value>(_ list: [Value], _ value: (inout ByteSink, Value) -> Void) {
        let listed = list.prefix(Int(UInt16.max))
        append(big: UInt64(listed.count), count: 2)
        for one in listed { value(&self, one) }
    }

    private mutating func append(_ date: UnixTime) { append(big: UInt64(bitPattern: date.milliseconds)) }
}

// MARK: Calls

extension ByteSink {
    mutating func append(_ call: StoredCall) {
        let (sender, userCall) = (call.sender, call.userCall)
        append(call.receivedAt)
        append(JournalFlags(call.isTrusted, sender != nil, userCall != nil, userCall?.mayPush == true))
        append(call.source)
        if let sender { append(sender) }
        if let userCall { append(userCall) }
        append(counted: call.request)
        append(counted: call.final)
        append(call.branches) { $0.append($1) }
    }

    private mutating func append(_ userCall: StoredUserCall) {
        append(big: userCall.callRef.rawValue)
        append(userCall.aor)
        append(userCall.holdUntil)
    }
}

extension JournalReader {
    mutating func call(_ id: UInt64) -> StoredCall? {
        let (receivedAt, flags) = (date(), flags())
        guard let source = flow() else { return nil }
        let sender = flags[1] ? addressOfRecord() : nil
        let userCall = flags[2] ? userCall(mayPush: flags[3]) : nil
        let (request, final) = (bytes(), bytes())
        return StoredCall(
            id: id, userCall: userCall, receivedAt: receivedAt, source: source, isTrusted: flags[0], sender: sender,
            request: request, final: final, branches: list { $0.branch() })
    }

    /// Reads the part of a call that belongs to one user. The Call-ID and the From tag are parsed later from the stored
    /// request.
    private mutating func userCall(mayPush: Bool) -> StoredUserCall {
        let (callRef, aor, holdUntil) = (CallRef(rawValue: number()), addressOfRecord(), date())
        return StoredUserCall(
            aor: aor, callRef: callRef, callID: .empty, fromTag: .empty, holdUntil: holdUntil, mayPush: mayPush)
    }

    mutating func numberedBranch() -> (Int, StoredCall.Branch)? {
        let number = Int(number(bytes: 2))
        return branch().map { (number, $0) }
    }
}

// MARK: Branches

extension ByteSink {
    mutating func append(_ branch: StoredCall.Branch) {
        let sent = branch.sent
        append(branch.stage.code)
        append(
            JournalFlags(
                branch.wasPushed, branch.wasWoken, branch.deviceKnows, branch.hasMoved, branch.device != nil,
                branch.contact != nil, branch.code != nil, sent != nil))
        if let device = branch.device { append(big: device.rawValue) }
        if let contact = branch.contact { append(big: contact.rawValue) }
        if let code = branch.code {
            append(big: code.high)
            append(big: code.low)
        }
        let (end, status) = branch.end.map(\.code) ?? (0, nil)
        append(end)
        append(big: UInt64(status?.code ?? 0), count: 2)
        if let sent { append(sent) }
        append(branch.former) { $0.append(counted: $1) }
    }

    private mutating func append(_ sent: StoredCall.SentINVITE) {
        append(sent.flow)
        append(counted: sent.via)
        append(counted: sent.requestURI)
        append(sent.routes) { $0.append(counted: $1) }
    }
}

extension JournalReader {
    fileprivate mutating func branch() -> StoredCall.Branch? {
        guard let stage = StoredCall.Branch.Stage(code: byte()) else { return nil }
        let flags = flags()
        let device = flags[4] ? DeviceID(rawValue: number()) : nil
        let contact = flags[5] ? DeviceID(rawValue: number()) : nil
        let code = flags[6] ? PushCode(high: number(), low: number()) : nil
        let (endCode, status) = (byte(), Status(code: UInt16(number(bytes: 2))))
        let end = ForkBranch.End(code: endCode, status)
        guard endCode == 0 || end != nil else { return nil }
        var sent: StoredCall.SentINVITE?
        if flags[7] {
            guard let read = sentINVITE() else { return nil }
            sent = read
        }
        return StoredCall.Branch(
            stage: stage, device: device, contact: contact, wasPushed: flags[0], wasWoken: flags[1],
            deviceKnows: flags[2], hasMoved: flags[3], record: nil, code: code,
            end: end, sent: sent, former: list { $0.bytes() })
    }

    private mutating func sentINVITE() -> StoredCall.SentINVITE? {
        guard let flow = flow() else { return nil }
        return StoredCall.SentINVITE(via: bytes(), requestURI: bytes(), routes: list { $0.bytes() }, flow: flow)
    }
}

extension StoredCall.Branch.Stage {
    fileprivate var code: UInt8 {
        switch self {
        case .waiting: 1
        case .called: 2
        case .ended: 3
        case .delayed: 4
        }
    }

    fileprivate init?(code: UInt8) {
        switch code {
        case 1: self = .waiting
        case 2: self = .called
        case 3: self = .ended
        case 4: self = .delayed
        default: return nil
        }
    }
}

extension ForkBranch.End {
    fileprivate var code: (UInt8, Status?) {
        switch self {
        case .succeeded: (1, nil)
        case .failed(let status): (2, status)
        case .gaveUp(let status): (3, status)
        case .silent: (4, nil)
        case .cancelled(.answeredElsewhere): (5, nil)
        case .cancelled(.declinedElsewhere(let status)): (6, status)
        case .cancelled(.callerCancelled): (7, nil)
        case .cancelled(.endedByOperator(let status)): (8, status)
        case .cancelled(.moved): (9, nil)
        }
    }

    fileprivate init?(code: UInt8, _ status: Status) {
        switch code {
        case 1: self = .succeeded
        case 2: self = .failed(status)
        case 3: self = .gaveUp(status)
        case 4: self = .silent
        case 5: self = .cancelled(.answeredElsewhere)
        case 6: self = .cancelled(.declinedElsewhere(status))
        case 7: self = .cancelled(.callerCancelled)
        case 8: self = .cancelled(.endedByOperator(status))
        case 9: self = .cancelled(.moved)
        default: return nil
        }
    }
}

// MARK: Missed calls

extension ByteSink {
    mutating func append(_ change: StoredBucketChange) {
        append(change.aor)
        switch change.change {
        case .delete(let callRef):
            append(JournalFlags())
            append(big: callRef.rawValue)
        case .upsert(let entry):
            append(JournalFlags(true, entry.isOver, true))
            append(big: entry.callRef.rawValue)
            append(counted: entry.caller)
            append(entry.date)
            append(entry.devices) { $0.append(big: $1.rawValue) }
            append(entry.told) { $0.append(big: $1.rawValue) }
            append(big: entry.broughtBy.rawValue)
        }
    }
}

extension JournalReader {
    mutating func missedCall() -> StoredBucketChange? {
        let (aor, flags, callRef) = (addressOfRecord(), flags(), CallRef(rawValue: number()))
        guard flags[0] else { return StoredBucketChange(aor: aor, change: .delete(callRef)) }
        let (caller, date) = (bytes(), date())
        let devices = list { DeviceID(rawValue: $0.number()) }
        let told = list { DeviceID(rawValue: $0.number()) }
        // Entries of earlier versions lack the caller, so each entry gets its own caller.
        let broughtBy = flags[2] ? Caller(rawValue: number()) : Caller(hash: callRef.rawValue, isTrusted: true)
        let entry = BucketEntry(
            callRef: callRef, caller: caller, date: date, broughtBy: broughtBy, devices: devices, told: told,
            isOver: flags[1])
        return StoredBucketChange(aor: aor, change: .upsert(entry))
    }
}

// MARK: Addresses and flags

extension ByteSink {
    fileprivate mutating func append(_ aor: AddressOfRecord) {
        append(counted: aor.user)
        append(counted: aor.host)
    }

    /// Appends a flow without its connection number, because connections end with their process.
    fileprivate mutating func append(_ flow: Flow) {
        append(flow.transport.rawValue)
        append(JournalFlags(flow.isConnection || flow.isClosed, flow.remote.address.isV4))
        append(big: UInt64(flow.listener), count: 2)
        append(big: UInt64(flow.remote.port), count: 2)
        if flow.remote.address.isV4 {
            append(big: UInt64(flow.remote.address.v4Bits), count: 4)
        } else {
            append(big: flow.remote.address.high)
            append(big: flow.remote.address.low)
        }
    }

    fileprivate mutating func append(_ flags: JournalFlags) { append(flags.bits) }
}

extension JournalReader {
    fileprivate mutating func addressOfRecord() -> AddressOfRecord { AddressOfRecord(user: bytes(), host: bytes()) }

    fileprivate mutating func flow() -> Flow? {
        let (transport, flags) = (Transport(rawValue: byte()), flags())
        let (listener, port) = (UInt16(number(bytes: 2)), UInt16(number(bytes: 2)))
        let address =
            flags[1]
            ? IPAddress(v4: UInt32(truncatingIfNeeded: number(bytes: 4))) : IPAddress(high: number(), low: number())
        guard let transport, !isBroken else { return nil }
        let flow = Flow(transport: transport, listener: listener, connection: 0, remote: Endpoint(address, port))
        return flags[0] ? flow.closed : flow
    }

    fileprivate mutating func flags() -> JournalFlags { JournalFlags(bits: byte()) }
}

/// Eight flags of a journal entry in one byte.
private struct JournalFlags {
    let bits: UInt8

    init(bits: UInt8) { self.bits = bits }

    init(
        _ a: Bool = false, _ b: Bool = false, _ c: Bool = false, _ d: Bool = false, _ e: Bool = false,
        _ f: Bool = false,
        _ g: Bool = false, _ h: Bool = false
    ) {
        let low = (a ? 1 : 0) | (b ? 2 : 0) | (c ? 4 : 0) | (d ? 8 : 0) as UInt8
        let high = (e ? 16 : 0) | (f ? 32 : 0) | (g ? 64 : 0) | (h ? 128 : 0) as UInt8
        bits = low | high
    }

    subscript(index: Int) -> Bool { bits & 1 << UInt8(index) != 0 }
}
