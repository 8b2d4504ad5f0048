package import Addressing
import Bytes
package import Collections
package import PushDelivery
package import SIPGrammar
import Timekeeping

/// The changes of an accepted REGISTER, before any of them is made.
///
/// ``RegisterProcessor/plan(_:for:on:in:now:)`` makes the plan. If ``persist`` is not empty, ``BindingTable/begin(_:)``
/// follows, then the store writes these changes. After the write, ``BindingTable/apply(_:)`` follows, or
/// ``BindingTable/cancel(_:)`` if the store failed. Finally the 200 with its ``announcement`` is sent. An AOR has at
/// most one plan at a time.
///
/// The type is a class, because many functions pass it on, and a copy of a value would retain a dozen arrays.
package final class RegisterPlan {
    package let aor: AddressOfRecord
    /// The changes that must be persisted before the 200. There are none if a restart would lose nothing: the old row
    /// of a refreshed push contact restores the contact equally well.
    package internal(set) var persist: [BindingChange] = []
    /// The bindings whose only changes are expiry, CSeq and Call-ID. Their rows, from
    /// ``BindingTable/stored(_:userAgent:now:)``, may be written later.
    package internal(set) var bookkeeping = ShortList<DeviceID>()
    /// The devices that have registered. After the 200, the calls held for them are released, and lists of missed calls
    /// are sent to them.
    package internal(set) var refreshed = ShortList<DeviceID>()
    /// The devices that this REGISTER removes.
    package internal(set) var removed: [DeviceID] = []
    /// The changes of this REGISTER, as the log describes them.
    package internal(set) var facts: [RegistrationFact] = []

    package internal(set) var announcement = RegisterAnnouncement()
    /// The refresh of a contact without push token, if the REGISTER changes nothing else.
    var refresh: ContactRefresh?
    var installs: [Install] = []

    /// A record to be created or replaced.
    struct Install: Sendable {
        let id: DeviceID
        var content: Binding.Content
    }

    init(aor: AddressOfRecord) { self.aor = aor }
}

/// A change by a REGISTER or a report, for the log.
package enum RegistrationFact: Hashable, Sendable, CustomStringConvertible {
    case added(DeviceID, isPush: Bool)
    /// The same device registered a new token (rule R8b).
    case tokenReplaced(DeviceID)
    /// A contact was replaced by another contact of the same device (rule R8b).
    case superseded(DeviceID, by: DeviceID)
    case unregistered(DeviceID)
    /// A device has push parameters, but the daemon sends it no pushes.
    case pushNotUsed(DeviceID, PushNotUsed)
    /// `pn-param` and `pn-params` were both sent with different values (reading A1).
    case conflictingParams(DeviceID)
    /// A contact with `expires=0` named a token that no device has registered, so nothing was removed (reading A7).
    case unknownSignOut
    /// The REGISTER had the same Call-ID and CSeq as before, and got the same response.
    case retransmission

    /// The text of the fact for log lines.
    package var description: String {
        switch self {
        case .added(let device, let isPush): "added \(device.name) \(isPush ? "with" : "without") push"
        case .tokenReplaced(let device): "new token of \(device.name)"
        case .superseded(let device, let other): "\(device.name) replaced by \(other.name)"
        case .unregistered(let device): "\(device.name) signed out"
        case .pushNotUsed(let device, .unsupported): "added \(device.name) without push: its provider is not served"
        case .pushNotUsed(let device, .invalid): "added \(device.name) without push: its push parameters are not valid"
        case .pushNotUsed(let device, .pushedElsewhere): "added \(device.name) without push: another proxy pushes"
        case .conflictingParams(let device): "pn-param and pn-params of \(device.name) differ"
        case .unknownSignOut: "signed out with a token that nobody has registered"
        case .retransmission: "a copy of the last REGISTER"
        }
    }

    package enum PushNotUsed: Hashable, Sendable {
        case unsupported(TokenProblem)
        case invalid(PushParameters.Invalid)
        /// A proxy nearer to the device sends the pushes (rule P1).
        case pushedElsewhere
    }
}

/// The decision about a REGISTER.
package enum RegisterDecision {
    case accepted(RegisterPlan)
    /// The REGISTER only refreshes a push contact, and nothing must be persisted first.
    case refreshed(ContactRefresh)
    /// The REGISTER is refused with this status and these header fields, and no binding changes. `because` is the
    /// problem if a push token was refused.
    case rejected(Status, [AddedField], because: TokenProblem? = nil)
}

extension BindingTable {
    /// Protects the bindings in the plan while the store writes it, and reserves the plan's new ids.
    package mutating func begin(_ plan: RegisterPlan) { mark(plan, busy: true) }

    /// Drops a plan that the store could not write. The reserved ids of the plan stay unused.
    package mutating func cancel(_ plan: RegisterPlan) { mark(plan, busy: false) }

    /// Applies the plan.
    package mutating func apply(_ plan: RegisterPlan) {
        if let refresh = plan.refresh {
            apply(refresh)
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

    private mutating func mark(_ plan: RegisterPlan, busy: Bool) {
        for id in plan.removed + plan.installs.map(\.id) + [plan.refresh?.id].compactMap({ $0 }) {
            if let slot = slot(of: id) {
                if busy { self[slot].marks.insert(.isBusy) } else { self[slot].marks.remove(.isBusy) }
            } else if id >= nextID {
                nextID = DeviceID(rawValue: id.rawValue &+ 1)
            }
        }
    }
}
