package import Addressing
import Bytes
package import Collections
package import PushDelivery
package import SIPGrammar
import Timekeeping

/// The changes of an accepted REGISTER, before the changes are made.
///
/// ``RegisterProcessor/plan(_:for:on:in:now:)`` makes the plan (the changes of a REGISTER). ``BindingTable/begin(_:)``
/// locks the bindings of a plan with ``persist`` while the store writes the changes. After the write,
/// ``BindingTable/apply(_:)`` makes the changes, and the 200 with the ``announcement`` is sent. If the store cannot
/// write the plan's changes, ``BindingTable/cancel(_:)`` drops the plan. Each AOR has at most one ``RegisterPlan`` at
/// any time.
///
/// ``RegisterPlan`` is a class, because each copy of a structure would retain a dozen arrays.
package final class RegisterPlan {
    package let aor: AddressOfRecord
    /// The changes that the store must write before the 200 is sent. The refresh of a contact with push token needs no
    /// write, because after a restart the old row is good enough.
    package internal(set) var persist: [BindingChange] = []
    /// The bindings in which the REGISTER changes only expiry, CSeq and Call-ID. These rows can be written later: see
    /// ``BindingTable/stored(_:userAgent:now:)``.
    package internal(set) var bookkeeping = ShortList<DeviceID>()
    /// The devices whose contacts the REGISTER contains. After the 200, these devices get their waiting calls and their
    /// lists of missed calls.
    package internal(set) var refreshed = ShortList<DeviceID>()
    /// The devices that the REGISTER removes.
    package internal(set) var removed: [DeviceID] = []
    /// The changes by the REGISTER, for the log.
    package internal(set) var facts: [RegistrationFact] = []

    package internal(set) var announcement = RegisterAnnouncement()
    /// The refresh of a contact without push token, if the REGISTER changes nothing else.
    var refresh: ContactRefresh?
    var installs: [Install] = []
    /// Whether the REGISTER changes the nonce that the binding keeps.
    var changesNonce = false

    /// A binding that the REGISTER creates or replaces.
    struct Install: Sendable {
        let id: DeviceID
        var content: Binding.Content
    }

    init(aor: AddressOfRecord) { self.aor = aor }

    /// The number of contacts that the REGISTER adds, minus the number that it removes.
    package var newContacts: Int {
        facts.count { if case .added = $0 { true } else { false } } - removed.count
    }

    /// Whether the user gets or loses a contact, or a contact gets another push token.
    package var changesContacts: Bool {
        !removed.isEmpty
            || facts.contains { fact in
                switch fact {
                case .added, .tokenReplaced, .superseded, .unregistered: true
                case .pushNotUsed, .conflictingParams, .unknownSignOut, .retransmission: false
                }
            }
    }
}

/// A change by a REGISTER or an HTTP report, for the log.
package enum RegistrationFact: Hashable, Sendable, CustomStringConvertible {
    case added(DeviceID, isPush: Bool)
    /// A device has registered with a new push token (rule R8b).
    case tokenReplaced(DeviceID)
    /// A contact of a device was replaced by another contact of the same device (rule R8b).
    case superseded(DeviceID, by: DeviceID)
    case unregistered(DeviceID)
    /// The device has push parameters, but gets no pushes.
    case pushNotUsed(DeviceID, PushNotUsed)
    /// The contact has both `pn-param` and `pn-params`, with different values (reading A1).
    case conflictingParams(DeviceID)
    /// A contact with `expires=0` has a push token that no device has registered, so no contact was removed (reading
    /// A7).
    case unknownSignOut
    /// The REGISTER has the Call-ID and CSeq of an earlier REGISTER, and gets the same response.
    case retransmission

    /// The change in words, for log lines.
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
        /// Another proxy, nearer to the device, sends the pushes to the device (rule P1).
        case pushedElsewhere
    }
}

/// The decision about a REGISTER: accepted, or refused.
package enum RegisterDecision {
    case accepted(RegisterPlan)
    /// The REGISTER only refreshes a contact with push token, and the store need not write anything before the 200.
    case refreshed(ContactRefresh)
    /// The REGISTER is refused with the given status and header fields, and no binding changes. If a push token is the
    /// reason for the refusal, `because` says what is wrong with the token.
    case rejected(Status, [AddedField], because: TokenProblem? = nil)
    /// The REGISTER must be challenged again, because its nonce is not the nonce that the binding keeps.
    case challenged
}

extension BindingTable {
    /// Locks the bindings of a plan while the store writes the changes, and reserves the ids of new bindings.
    package mutating func begin(_ plan: RegisterPlan) { mark(plan, busy: true) }

    /// Drops a plan that the store could not write. The reserved ids of a dropped plan are not used again.
    package mutating func cancel(_ plan: RegisterPlan) {
        mark(plan, busy: false)
        guard sharesIDs else { return }
        for install in plan.installs where slot(of: install.id) == nil && unconfirmed.count < Self.mostUnconfirmed {
            unconfirmed.insert(install.id)
        }
    }

    /// Makes all changes of the plan to the bindings.
    package mutating func apply(_ plan: RegisterPlan) {
        if let refresh = plan.refresh {
            if !unconfirmed.isEmpty { unconfirmed.remove(refresh.id) }
            apply(refresh)
            return
        }
        for id in plan.removed {
            if let slot = slot(of: id) { remove(slot: slot) }
        }
        for install in plan.installs {
            if !unconfirmed.isEmpty { unconfirmed.remove(install.id) }
            guard var record = makeRecord(install.id, install.content) else { continue }
            if let slot = slot(of: install.id) {
                // The binding's present nonce is kept, because the binding may have lost its nonce since the check of
                // the REGISTER.
                if !plan.changesNonce { record.nonce = self[slot].nonce }
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
            } else {
                noteUsed(id)
            }
        }
    }
}
