package import Addressing
import Bytes
package import Collections
package import SIPGrammar
import Timekeeping

/// What an acceptable REGISTER is going to change, before anything is changed.
///
/// ``RegisterProcessor/plan(_:for:on:in:now:)`` makes it. If ``persist`` has something, ``BindingTable/begin(_:)``
/// follows, then the store writes it. Then comes ``BindingTable/apply(_:)``, or ``BindingTable/cancel(_:)`` when the
/// store failed, and at last the 200 with the fields of ``BindingTable/appendOKFields(for:date:now:to:seal:)``. Each AOR has one plan
/// at a time.
///
/// What few have stands apart, so that the plan of a refresh, which nearly all are, takes no memory of its own.
package struct RegisterPlan {
    package let aor: AddressOfRecord
    /// The devices of which only expiry, CSeq and Call-ID changed. Their rows, which ``BindingTable/stored(_:now:)``
    /// gives, may be written later.
    package internal(set) var bookkeeping = ShortList<DeviceID>()
    /// The devices that registered. After the 200 their held calls go out, and their missed calls are reported.
    package internal(set) var refreshed = ShortList<DeviceID>()
    /// Whether the only device in ``refreshed`` is known to have a push contact.
    package var isRefreshOfPush: Bool { touch?.isPush ?? false }

    /// The bindings whose push parameters the answer repeats (rule P7). Those of other devices stay secret.
    var echoed = ShortList<DeviceID>()
    var featureCaps: [ByteString] = []
    /// A flow of RFC 5626 was registered.
    package internal(set) var isOutbound = false
    /// How often the phone shall send something on that flow, in seconds.
    package internal(set) var flowTimer: UInt32?
    /// The push contact whose reference goes into the answer, see ``SealedName/purr(_:)``.
    var announcedPURR: DeviceID?
    /// The client wants to know the GRUUs of its contacts (RFC 5627).
    var wantsGRUU = false

    var touch: Touch?
    private var changes = Rare<Changes>()

    /// What is more than a refresh.
    struct Changes {
        var persist: [BindingChange] = []
        var removed: [DeviceID] = []
        var facts: [RegistrationFact] = []
        var path: [ByteString] = []
        var installs: [Install] = []
    }

    /// A refresh that leaves contact, flow, Call-ID and Path as they are.
    struct Touch: Sendable {
        let id: DeviceID
        /// Where the binding stood when the plan was made.
        let slot: UInt32
        /// Where the first binding of its AOR stood then.
        let first: UInt32
        let cseq: UInt32
        let granted: UInt32
        let freshUntil: Instant
        let registeredAt: UnixTime
        let isPush: Bool
    }

    /// A record to be made or replaced.
    struct Install: Sendable {
        let id: DeviceID
        var content: Binding.Content
    }

    init(aor: AddressOfRecord) { self.aor = aor }

    /// What must be in the store before the 200 is sent. It is empty when nothing changed that a restart could lose: a
    /// push contact that was only refreshed comes back from its old row just as well.
    package var persist: [BindingChange] { changes.value?.persist ?? [] }
    /// The devices that this REGISTER removes.
    package var removed: [DeviceID] { changes.value?.removed ?? [] }
    /// What the log says of it.
    package var facts: [RegistrationFact] { changes.value?.facts ?? [] }
    /// The Path values of the request, repeated in the answer (RFC 3327 section 5.3).
    var path: [ByteString] { changes.value?.path ?? [] }
    var installs: [Install] { changes.value?.installs ?? [] }

    mutating func change(_ body: (inout Changes) -> Void) { changes.change(orNew: Changes(), body) }

    mutating func add(_ fact: RegistrationFact) { change { $0.facts.append(fact) } }

    mutating func remove(_ id: DeviceID) {
        change {
            $0.removed.append(id)
            $0.persist.append(.delete(id))
        }
    }

    /// Makes or replaces a record, and has it written first if a restart must not lose it.
    mutating func install(_ content: Binding.Content, as id: DeviceID, writing row: StoredBinding?) {
        change {
            $0.installs.append(Install(id: id, content: content))
            if let row { $0.persist.append(.upsert(row)) }
        }
    }
}

/// What happened to a device, for the log.
package enum RegistrationFact: Hashable, Sendable {
    case added(DeviceID, isPush: Bool)
    /// The same device came with a new token (rule R8b).
    case tokenReplaced(DeviceID)
    /// A contact was removed because another contact of the same device took its place (rule R8b).
    case superseded(DeviceID, by: DeviceID)
    case unregistered(DeviceID)
    /// A device registered as an ordinary contact, although it asked for pushes.
    case pushNotUsed(DeviceID, PushNotUsed)
    /// `pn-param` and `pn-params` were both there and differ (reading A1).
    case conflictingParams(DeviceID)
    /// A sign-out named a token that nobody has registered, so nothing was removed (reading A7).
    case unknownSignOut
    /// The REGISTER has the same Call-ID and CSeq as before and was answered again.
    case retransmission

    package enum PushNotUsed: Hashable, Sendable {
        case unsupported(PushParameters.Unsupported)
        case invalid(PushParameters.Invalid)
        /// Another proxy nearer to the device pushes (rule P1).
        case pushedElsewhere
    }
}

/// The verdict on a REGISTER.
package enum RegisterDecision {
    case accepted(RegisterPlan)
    /// Nothing changes, and the answer has this status and these further fields.
    case rejected(Status, [AddedField])
}

extension BindingTable {
    /// Protects the bindings that the plan names while the store writes it, and takes its new ids.
    package mutating func begin(_ plan: RegisterPlan) { mark(plan, busy: true) }

    /// Gives up a plan that the store could not write. The ids it had taken stay unused.
    package mutating func cancel(_ plan: RegisterPlan) { mark(plan, busy: false) }

    /// Carries the plan out.
    package mutating func apply(_ plan: RegisterPlan) {
        if let touch = plan.touch {
            apply(touch)
            return
        }
        for id in plan.removed {
            if let slot = slot(of: id) { remove(slot: slot) }
        }
        for install in plan.installs {
            guard let record = makeRecord(install.id, install.content) else { continue }
            if let slot = slot(of: install.id) {
                replace(slot: slot, with: record)
            } else {
                insert(record, for: plan.aor)
            }
        }
    }

    private mutating func apply(_ touch: RegisterPlan.Touch) {
        let slot: UInt32
        if slots.contains(touch.slot), self[touch.slot].id == touch.id {
            slot = touch.slot
        } else if let found = self.slot(of: touch.id) {
            slot = found
        } else {
            return
        }
        let isLater = touch.freshUntil >= self[slot].freshUntil
        self[slot].cseq = touch.cseq
        self[slot].granted = touch.granted
        self[slot].freshUntil = touch.freshUntil
        self[slot].registeredAt = touch.registeredAt
        self[slot].marks.subtract([.isBusy, .hasFailed, .wasAskedToRefresh])
        if !isLater { scheduleExpiry(of: slot) }
    }

    private mutating func mark(_ plan: RegisterPlan, busy: Bool) {
        for id in plan.removed + plan.installs.map(\.id) + [plan.touch?.id].compactMap({ $0 }) {
            if let slot = slot(of: id) {
                if busy { self[slot].marks.insert(.isBusy) } else { self[slot].marks.remove(.isBusy) }
            } else if id >= nextID {
                nextID = DeviceID(rawValue: id.rawValue &+ 1)
            }
        }
    }
}
