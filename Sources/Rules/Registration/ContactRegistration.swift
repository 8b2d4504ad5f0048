import Addressing
import Bytes
import PushDelivery
import SIPGrammar
import Timekeeping

/// Decides how the contacts of one REGISTER change the bindings of their AOR. A REGISTER makes all its changes or none
/// (RFC 3261 section 10.3).
///
/// New contacts are processed before contacts with `expires=0`, because a client that has moved can send both with the
/// same push token.
struct ContactRegistration {
    let request: SIPRequest
    let flow: Flow
    let stored: [StoredContact]
    let enabled: ProviderSet
    let settings: RegistrarSettings
    let lifetime: ContactLifetime
    let featureCaps: FeatureCaps
    let now: Moment

    /// The maximum length in bytes of the Call-ID, and of all Path values together.
    private static let longestField = 2048

    private var asked: [AskedContact] = []
    private let outbound: OutboundSupport
    /// For each stored contact, whether a contact of the REGISTER refreshes or removes the stored contact.
    private var taken: [Bool] = []
    private var announcedElsewhere: [ByteString] = []

    init(
        request: SIPRequest, flow: Flow, stored: [StoredContact], enabled: ProviderSet, settings: RegistrarSettings,
        lifetime: ContactLifetime, featureCaps: FeatureCaps, now: Moment
    ) {
        self.request = request
        self.flow = flow
        self.stored = stored
        self.enabled = enabled
        self.settings = settings
        self.lifetime = lifetime
        self.featureCaps = featureCaps
        self.now = now
        taken = Array(repeating: false, count: stored.count)
        outbound = OutboundSupport(request)
        if request.frame.contains(.featureCaps) {
            announcedElsewhere = FeatureCaps.names(announcedIn: request.frame.values(of: .featureCaps))
        }
    }

    /// Decides about all contacts of the REGISTER; new contacts get consecutive ids from `firstNewID` on.
    mutating func decide(_ plan: RegisterPlan, firstNewID: DeviceID) -> RegisterDecision {
        if let refusal = readContacts(for: plan.aor) { return refusal }
        dropRepeated()
        match()
        if let refusal = refuseFurtherHosts(for: plan.aor) { return refusal }

        var nextID = firstNewID
        var added: [DeviceID] = []
        for index in asked.indices where !asked[index].isSignOut {
            let contact = asked[index]
            let id: DeviceID
            if let match = contact.match {
                id = stored[match].id
            } else {
                id = nextID.following { id in
                    stored.contains { id.hasSameName(as: $0.id) } || added.contains { id.hasSameName(as: $0) }
                }
                nextID = DeviceID(rawValue: id.rawValue &+ 1)
                added.append(id)
            }
            install(contact, as: id, in: plan)
            supersede(by: contact, id, in: plan)
            announce(contact, id, in: plan)
        }
        for contact in asked where contact.isSignOut { signOut(contact, in: plan) }

        guard added.isEmpty || stored.count - plan.removed.count + added.count <= settings.maxContacts else {
            return .rejected(.forbidden, [])
        }
        return .accepted(plan)
    }

    /// Collects the values for the 200 to a retransmitted REGISTER, which changes no contact.
    mutating func announceAgain(_ plan: RegisterPlan) {
        guard readContacts(for: plan.aor) == nil else { return }
        dropRepeated()
        match()
        for contact in asked where !contact.isSignOut {
            guard let match = contact.match else { continue }
            announceFlow(of: contact, in: plan)
            announce(contact, stored[match].id, in: plan)
        }
    }

    // MARK: Reading

    /// Reads all contacts of the REGISTER.
    ///
    /// - Returns: the refusal of the whole REGISTER; `nil` if all contacts are acceptable.
    private mutating func readContacts(for aor: AddressOfRecord) -> RegisterDecision? {
        guard request.contacts.count <= settings.maxContactsPerRequest, request.callID.count <= Self.longestField,
            request.frame.values(of: .path).reduce(0, { $0 + $1.count }) <= Self.longestField
        else { return .rejected(.badRequest, []) }
        for address in request.contacts {
            guard let contact = AskedContact(address, in: request, outbound, settings: settings, lifetime: lifetime)
            else {
                return .rejected(.badRequest, [])
            }
            asked.append(contact)
        }
        if let refusal = refusalOfFlows(for: aor) { return refusal }
        // A `sips:` contact in a REGISTER without TLS is refused, because no request could be sent to it (RFC 5630
        // section 5.3).
        if !flow.transport.isSecure, asked.contains(where: { !$0.isSignOut && $0.address.uri.scheme == .sips }) {
            return .rejected(.forbidden, [.warning(380, by: aor.host, "SIPS Not Allowed")])
        }
        for contact in asked where !contact.isSignOut {
            let isPush = contact.token != nil && lifetime.isLongerForPush && reasonNotToPush(contact) == nil
            let least = lifetime.minimum(isPush: isPush)
            guard contact.expires >= least else {
                let minimum = AddedField("Min-Expires", ByteString("\(least)"))
                return .rejected(.intervalTooBrief, [minimum] + (contact.push == .none ? [] : offer(to: nil)))
            }
        }
        for index in asked.indices where !asked[index].isSignOut {
            asked[index].notUsed = reasonNotToPush(asked[index])
            if case .unsupported(let problem) = asked[index].notUsed, settings.unsupportedPush == .reject {
                return rejection(of: asked[index], problem, for: aor)
            }
        }
        return nil
    }

    /// Limits the number of push servers that the devices of one user choose (T46.7). A contact at a further server is
    /// treated like a contact whose push service is not supported. Contacts of a disabled provider count too, because
    /// the provider can be enabled again.
    ///
    /// - Returns: the refusal of the whole REGISTER, if the settings ask for a refusal.
    private mutating func refuseFurtherHosts(for aor: AddressOfRecord) -> RegisterDecision? {
        var known: Set<String>?
        for index in asked.indices where !asked[index].isSignOut && asked[index].isKeptForPush {
            guard let token = asked[index].token, let host = settings.push.chosenHost(of: token) else { continue }
            var hosts = known ?? settings.push.chosenHosts(of: stored.indices.filter { !taken[$0] }.map { stored[$0] })
            if !hosts.contains(host), hosts.count >= PushAcceptance.chosenHostLimit {
                asked[index].notUsed = .unsupported(.webPushHostCount)
                guard settings.unsupportedPush == .reject else { continue }
                return rejection(of: asked[index], .webPushHostCount, for: aor)
            }
            hosts.insert(host)
            known = hosts
        }
        return nil
    }

    private func rejection(
        of contact: AskedContact, _ problem: TokenProblem, for aor: AddressOfRecord
    ) -> RegisterDecision {
        let warning = AddedField.warning(399, by: aor.host, "\(problem.sentence)")
        return .rejected(.pushNotSupported, offer(to: contact) + [warning], because: problem)
    }

    /// The refusal of a REGISTER that breaks RFC 5626 section 6, or whose contact is the user's own GRUU (RFC 5627
    /// section 5.1); otherwise `nil`. If a user registered the user's own GRUU, calls would loop.
    private func refusalOfFlows(for aor: AddressOfRecord) -> RegisterDecision? {
        for contact in asked where contact.address.uri.parameters.contains("gr") {
            guard AddressOfRecord(contact.address.uri) != aor else { return .rejected(.forbidden, []) }
        }
        if outbound == .hopLacks, asked.contains(where: { RegistrationFlow($0.address) != nil }) {
            return .rejected(.firstHopLacksOutbound, [])
        }
        return asked.count(where: { $0.flow != nil && !$0.isSignOut }) > 1 ? .rejected(.badRequest, []) : nil
    }

    /// The Feature-Caps fields of a refusal, from which the app can choose another push service (rules P3, P9). The
    /// push service of the refused contact is omitted, because a new REGISTER with it would be refused again.
    private func offer(to refused: AskedContact?) -> [AddedField] {
        let asked = refused?.triple.provider.flatMap { PushProvider(named: $0) }
        return enabled.providers.filter { $0 != asked }.flatMap { provider in
            featureCaps.row(of: provider.number).map { AddedField("Feature-Caps", $0) }
        }
    }

    private func reasonNotToPush(_ contact: AskedContact) -> RegistrationFact.PushNotUsed? {
        if let provider = contact.triple.provider, contact.triple.prid != nil, isAnnouncedElsewhere(provider) {
            return .pushedElsewhere
        }
        switch contact.push {
        case .none, .query: return nil
        case .push(let token):
            return enabled.contains(token.provider) ? nil : .unsupported(.providerOff)
        case .unsupported(let reason): return .unsupported(reason)
        case .invalid(let reason): return .invalid(reason)
        }
    }

    // MARK: Matching

    /// If several contacts in the REGISTER describe one binding, drops all but the last.
    private mutating func dropRepeated() {
        var kept: [AskedContact] = []
        for (index, contact) in asked.enumerated() {
            let isRepeated = asked[(index + 1)...].contains { later in
                !later.isSignOut && !contact.isSignOut && contact.isRepeated(by: later)
            }
            if !isRepeated { kept.append(contact) }
        }
        asked = kept
    }

    /// Finds the stored contact that each contact of the REGISTER refreshes. A stored contact is found by flow, then
    /// token (reading A6) or URI, reported token, label (rule R8b), and URI alone. The order of the rules prevents two
    /// contacts of one device from replacing each other.
    private mutating func match() {
        let callID = request.callID
        take { contact, stored in contact.flow != nil && stored.flow == contact.flow }
        take { contact, stored in
            contact.token != nil ? stored.token == contact.token : contact.isSameContact(as: stored, callID: callID)
        }
        take { contact, stored in stored.wasReported(with: contact.token) }
        take { contact, stored in contact.label != nil && stored.label == contact.label }
        take { contact, stored in contact.isSameContact(as: stored, callID: callID) }
    }

    /// Matches each unmatched contact of the REGISTER with the first free stored contact for which `isMatch` is true.
    private mutating func take(where isMatch: (AskedContact, StoredContact) -> Bool) {
        for index in asked.indices where !asked[index].isSignOut && asked[index].match == nil {
            let contact = asked[index]
            for place in stored.indices
            where !taken[place] && !contact.isOtherFlow(than: stored[place]) && isMatch(contact, stored[place]) {
                asked[index].match = place
                taken[place] = true
                break
            }
        }
    }

    // MARK: Changes

    private func install(_ contact: AskedContact, as id: DeviceID, in plan: RegisterPlan) {
        let granted = lifetime.granted(contact.expires)
        // A contact keeps its provider's number while the provider is switched off, so that pushes work again when the
        // provider is switched on.
        let provider = contact.isKeptForPush ? contact.token?.provider.number ?? 0 : 0
        var text = contact.text
        // The contact keeps the label of its HTTP report, because the app server uses the label to remove the device.
        if contact.token != nil, let match = contact.match, let label = stored[match].reportedLabel {
            text = ContactText.marked(text, asReported: label) ?? text
        }
        let content = Binding.Content(
            aor: plan.aor, contact: text, callID: request.callID, path: plan.announcement.path, flow: flow,
            cseq: request.cseq.number, granted: granted, freshUntil: now.instant.adding(seconds: granted),
            registeredAt: now.date, q: contact.address.q, provider: provider,
            marks: contact.address.marks(
                needsReview: contact.notUsed != nil || contact.push != .none && provider == 0,
                isFlow: contact.flow != nil),
            nonce: contact.match.map { stored[$0].binding.nonce } ?? .none)
        plan.installs.append(RegisterPlan.Install(id: id, content: content))
        plan.refreshed.append(id)
        plan.announcement.echoed.append(id)
        announceFlow(of: contact, in: plan)
        if let match = contact.match, isBookkeeping(content, on: stored[match]) {
            plan.bookkeeping.append(id)
        } else {
            let row = StoredBinding(id: id, content, from: UserAgent.said(in: request), now: now)
            plan.persist.append(.upsert(row))
        }

        if let match = contact.match {
            if contact.token != nil, stored[match].isPush, stored[match].token != contact.token {
                plan.facts.append(.tokenReplaced(id))
            }
        } else {
            plan.facts.append(.added(id, isPush: enabled.contains(number: provider)))
        }
        if let reason = contact.notUsed { plan.facts.append(.pushNotUsed(id, reason)) }
        if contact.triple.hasConflictingParams { plan.facts.append(.conflictingParams(id)) }
    }

    /// Whether the REGISTER changes only values that a restart may lose without harm.
    private func isBookkeeping(_ content: Binding.Content, on old: StoredContact) -> Bool {
        let binding = old.binding
        return !old.isUnconfirmed && enabled.contains(number: content.provider) && binding.provider == content.provider
            && binding.flow == content.flow && binding.contact == content.contact
            && binding.joinedPath == Binding.joined(content.path)
    }

    /// Removes the stored contacts that a registering contact replaces: older contacts of the device (rule R8b), and
    /// contacts with the same token or URI.
    private mutating func supersede(by contact: AskedContact, _ id: DeviceID, in plan: RegisterPlan) {
        for place in stored.indices where !taken[place] && !contact.isOtherFlow(than: stored[place]) {
            let old = stored[place]
            let isSameDevice = contact.label != nil && contact.label == old.label
            let isSameToken = contact.token != nil && contact.token == old.token || old.wasReported(with: contact.token)
            guard isSameDevice || isSameToken || contact.isSameContact(as: old, callID: request.callID) else {
                continue
            }
            taken[place] = true
            plan.remove(old.id)
            plan.facts.append(.superseded(old.id, by: id))
        }
    }

    /// Removes the stored contacts that a contact with `expires=0` describes (rule R8a, reading A7, rule P10).
    private mutating func signOut(_ contact: AskedContact, in plan: RegisterPlan) {
        let places = placesNamed(bySignOut: contact)
        for place in places {
            taken[place] = true
            plan.remove(stored[place].id)
            plan.facts.append(.unregistered(stored[place].id))
        }
        if places.isEmpty, contact.triple.prid != nil { plan.facts.append(.unknownSignOut) }
    }

    private func placesNamed(bySignOut contact: AskedContact) -> [Int] {
        let free = stored.indices.filter { !taken[$0] && !contact.isOtherFlow(than: stored[$0]) }
        if contact.flow != nil {
            let named = free.filter { stored[$0].flow == contact.flow }
            if !named.isEmpty { return named }
        }
        let uri = contact.address.uri
        let sameURI = free.filter { contact.uri.isEquivalent(to: stored[$0].uri, ignoringPush: true) }
        if contact.triple.prid != nil {
            // A contact with another token stays, even with the same address, because a token belongs to one device.
            let named = free.filter { place in stored[place].token.map(contact.triple.names) ?? false }
            if !named.isEmpty { return named }
            let reported = free.filter { stored[$0].wasReported(with: contact.token) }
            if !reported.isEmpty { return reported }
            let ordinary = sameURI.filter { stored[$0].token == nil }
            if !ordinary.isEmpty { return ordinary }
            return labelled(as: contact, among: free)
        }
        // If several contacts have the address of the sign-out, the contact with the REGISTER's Call-ID is removed; if
        // none has this Call-ID, the contacts without token are removed.
        let own = sameURI.filter { stored[$0].callID == request.callID }
        if !own.isEmpty { return own }
        let ordinary = sameURI.filter { !stored[$0].isPush }
        if !ordinary.isEmpty { return ordinary }
        if !sameURI.isEmpty { return sameURI }
        let labelled = labelled(as: contact, among: free)
        if !labelled.isEmpty { return labelled }
        // The stored contact with the REGISTER's Call-ID is the client's old contact, if the client's address has
        // changed. If a REGISTER only removes an old address, its Via has another address.
        let via = request.via
        guard SIPURI.isSameHost(via.host, uri.host), (via.port ?? 5060) == (uri.port ?? 5060) else { return [] }
        return free.filter { stored[$0].callID == request.callID }
    }

    private func labelled(as contact: AskedContact, among places: [Int]) -> [Int] {
        guard let label = contact.label else { return [] }
        return places.filter { stored[$0].label == label }
    }

    // MARK: Answer

    private func announceFlow(of contact: AskedContact, in plan: RegisterPlan) {
        guard contact.flow != nil else { return }
        plan.announcement.addFlow(settings)
    }

    private func announce(_ contact: AskedContact, _ id: DeviceID, in plan: RegisterPlan) {
        guard contact.notUsed == nil else { return }
        let providers: [PushProvider] =
            switch contact.push {
            case .push(let token): [token.provider]
            case .query(.all): enabled.providers
            case .query(.provider(let provider)): enabled.contains(provider) ? [provider] : []
            case .query(.unknown), .none, .unsupported, .invalid: []
            }
        let refreshesItself = contact.address.parameters.contains("+sip.pnsreg")
        let rows = providers.filter { !isAnnouncedElsewhere(ByteString($0.rawValue)) }.flatMap {
            featureCaps.row(of: $0.number, refreshesItself: refreshesItself)
        }
        plan.announcement.add(rows, for: settings.announcesPURR && contact.token != nil ? id : nil)
    }

    private func isAnnouncedElsewhere(_ provider: @autoclosure () -> ByteString) -> Bool {
        !announcedElsewhere.isEmpty && FeatureCaps.names(announcedElsewhere, include: provider())
    }
}
