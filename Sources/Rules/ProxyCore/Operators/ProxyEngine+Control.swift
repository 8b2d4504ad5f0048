import AccessLimits
package import Addressing
package import Bytes
package import Calling
package import Collections
import LocationService
package import Messaging
package import ProxyPolicy
package import PushDelivery
package import PushPlanning
package import Registration
package import Routing
import SIPGrammar
import SIPTransactions
package import Telemetry
package import Timekeeping
import Waking

/// Answers operators' queries, and executes operators' commands.
extension ProxyEngine {
    /// All calls to the daemon's users that wait for a phone or ring, oldest first.
    package var heldCalls: [StoredCall] { heldCalls(after: .beginning, limit: .max).elements }

    package var heldCallCount: Int { calls.offered }

    /// One page of the calls that wait for a phone or ring, oldest first.
    ///
    /// The parameter `cursor` is the property `next` of the previous page of calls.
    package func heldCalls(
        after cursor: PageCursor, limit: Int, of isWanted: ((AddressOfRecord) -> Bool)? = nil
    ) -> Page<StoredCall> {
        let page = calls.page(after: cursor.number, limit: limit) { call in
            guard let isWanted else { return true }
            return call.userCall.map { isWanted($0.aor) } ?? false
        }
        let last = page.count == limit ? page.last?.id.rawValue : nil
        return Page(page.compactMap(StoredCall.init), next: last.map { PageCursor($0) })
    }

    /// The calls to one user, or with one Call-ID, that wait for a phone or ring.
    package func heldCalls(of aor: AddressOfRecord?, orOf callID: ByteString) -> [StoredCall] {
        heldCalls { key, _ in key.aor == aor || key.callID == callID }
    }

    private func heldCalls(where isAsked: (UserCallKey, ProxiedRequest) -> Bool) -> [StoredCall] {
        calls.offered(where: isAsked).compactMap(StoredCall.init).sorted { $0.id < $1.id }
    }

    /// The waiting or ringing calls whose id, ``CallRef`` or Call-ID is `text`; one INVITE to several users gives
    /// several calls.
    package func heldCalls(named text: String) -> [StoredCall] {
        if let id = UInt64(text), let call = calls[ForkID(id)].flatMap(StoredCall.init) { return [call] }
        let (callID, ref) = (ByteString(text), CallRef(text))
        return heldCalls { key, call in key.callID == callID || (ref != nil && call.userCall?.ref == ref) }
    }

    /// The caller of a waiting or ringing call, in the form of ``MissedCall/remoteURI``; `nil` if the call does not
    /// exist.
    package func caller(of id: UInt64) -> ByteString? {
        calls[ForkID(id)].flatMap { revive($0) }.map {
            CallerIdentity($0.request, format: settings.call.callerIDFormat).remoteURI
        }
    }

    /// Ends a waiting or ringing call for an operator, and returns whether the call existed.
    ///
    /// A device that has sent no response to the INVITE gets the ended call as a missed call. The caller gets `status`,
    /// which is 480, 486, 600 or 603.
    func end(_ id: UInt64, with status: Status, now: Moment) -> Bool {
        guard let call = calls[ForkID(id)], StoredCall(call) != nil else { return false }
        update(call, now: now) { $0.endedByOperator(with: status) }
        return true
    }

    /// The number of INVITEs to and from phones that have no final response yet.
    package var callsUnderWay: Int { calls.shares.all.calls }

    /// Starts the shutdown of the daemon: new calls get 503, and other requests are still served.
    package func drainBegins() { access.admission.drainBegins() }

    /// The devices that would get an INVITE to the user now.
    package func targets(of aor: AddressOfRecord, now: Moment) -> [ForkTarget] {
        registrar.bindings.forkTargets(for: aor, now: now.instant)
    }

    /// The User-Agent of a phone's last REGISTER, if this User-Agent is not in the store yet; otherwise `nil`.
    package func userAgentSaidLately(by device: DeviceID) -> ByteString? { registrar.refreshedLately.agent(of: device) }

    package var isDraining: Bool { access.admission.isDraining }

    package var enabledProviders: Set<PushProvider> { registrar.enabledProviders }

    /// Adds a user, who is already in the store, to the engine's user directory.
    package func userAdded(_ user: DigestUser, now: Moment) {
        registrar.users.add(user)
        notePassword(of: user.name, realm: user.realm, now: now)
        tellUpstreamPassword(of: user.name, realm: user.realm, now: now)
    }

    package func userRemoved(name: ByteString, realm: ByteString, now: Moment) {
        let removed = registrar.users.remove(name: name, realm: realm)
        if let removed { upstreamUserRemoved(removed, now: now) }
        tellUpstreamPassword(of: name, realm: realm, now: now)
    }

    /// Applies settings that differ from the present settings only in values that can change at run time.
    package func settingsChanged(_ changed: ProxySettings, now: Moment) {
        if settings.call.ringLiveFlowWithin != changed.call.ringLiveFlowWithin {
            network.flows.watchActivity(changed)
        }
        let isUpstreamChanged = settings.upstream != changed.upstream || settings.upstreamCheck != changed.upstreamCheck
        let old = settings
        settings = changed
        let areTenantsChanged = old.tenants.all != changed.tenants.all
        if areTenantsChanged {
            access.digest.realmsChanged(changed.realms, of: changed.domains)
            registrar.tenantsChanged(changed.tenants, apps: ledger.dispatcher.directory)
            access.tenantPushes.forgetAll()
        }
        if areTenantsChanged || old.upstreamRegistrations != changed.upstreamRegistrations {
            upstreamRegistrationsChanged(since: old, now: now)
        }
        if isUpstreamChanged { watchUpstream(since: .distantPast) }
        access.admission.limit = changed.limits.queueing
        access.sources.registers.changed(changed.limits)
        sip.ringLimitChanged(changed.call.ringLimit)
        calls.limitsChanged(HeldShares.Limits(changed))
        ledger.settingsChanged(changed)
        if !changed.call.noWake.learns { wakes.records.forgetAll() }
    }

    /// Whether a device is awake or asleep, as shown to operators.
    package enum DeviceState: String, Sendable {
        case awake, asleep
        /// The device registered over UDP, so the daemon cannot know whether the device still listens.
        case unknown
    }

    package func state(of target: ForkTarget) -> DeviceState {
        guard target.isFresh, hop(to: target).isOpen else { return .asleep }
        return target.flow.transport.isReliable || !target.canBeWoken ? .awake : .unknown
    }
}

/// The nodes of the cluster, for operators.
extension ProxyEngine {
    /// The name of this node; `nil` without a cluster.
    package var nodeName: String? { network.flows.nodes?.own.name }

    /// The other nodes that live or have gone lately, sorted by name.
    package func otherNodes(now: Moment) -> [Nodes.Known] { network.flows.nodes?.known(now: now.instant) ?? [] }

    /// The name of the living node that has the flow to a device; `nil` without a cluster, or if the node has ended.
    package func nodeName(of target: ForkTarget) -> String? { network.flows.nodeName(of: target) }
}

/// Finds devices by push token in a search through all bindings, because push tokens have no index.
extension ProxyEngine {
    /// A device that the search for a push token has found.
    package struct FoundDevice: Hashable, Sendable {
        package let id: DeviceID
        package let domain: ByteString
        package let token: PushToken
        package let registeredAt: UnixTime
    }

    /// The name, in the settings, of the app to which a push token belongs.
    package func appName(of token: PushToken) -> String? {
        let apps = ledger.dispatcher.directory
        return apps.app(for: token).flatMap { apps[$0]?.name }
    }

    package func isKnown(_ device: DeviceID) -> Bool { registrar.bindings.flow(of: device) != nil }

    /// The domain of the device's user; `nil` if the device is unknown.
    package func domain(of device: DeviceID) -> ByteString? { registrar.bindings.aor(of: device)?.host }

    /// The device with its present push token; `nil` if the device was removed or has no push token.
    package func device(_ id: DeviceID, now: Moment) -> FoundDevice? {
        guard let target = registrar.bindings.forkTarget(id, now: now.instant), let token = target.pushToken,
            let domain = domain(of: id)
        else { return nil }
        return FoundDevice(id: id, domain: domain, token: token, registeredAt: target.registeredAt)
    }

    /// One step of the search for devices with the given push tokens.
    ///
    /// The parameter `words` has a part of each push token that needs no escapes in a URI; upper and lower case are
    /// equal. The parameter `limit` is the maximum number of devices that one step examines: see
    /// ``BindingTable/forEachDevice(of:with:from:limit:_:)``.
    ///
    /// - Returns: the devices that may have a token, and the cursor of the next step. After the last step, the cursor
    ///   is `nil`.
    package func devices(
        of providers: Set<PushProvider>, with words: [[UInt8]], from cursor: BindingCursor, limit: Int
    ) -> (found: [FoundDevice], next: BindingCursor?) {
        var cursor = cursor
        var found: [FoundDevice] = []
        let hasMore = registrar.bindings.forEachDevice(
            of: ProviderSet(providers), with: words, from: &cursor, limit: limit
        ) { device in
            guard let domain = domain(of: device.id) else { return }
            found.append(
                FoundDevice(id: device.id, domain: domain, token: device.token, registeredAt: device.registeredAt))
        }
        return (found, hasMore ? cursor : nil)
    }
}

/// Answers queries of the HTTP routes through which apps report devices.
extension ProxyEngine {
    /// The AOR of a user in one of this daemon's domains; `nil` if `user` is empty or the domain is foreign.
    ///
    /// The parameter `user` has no percent-escapes, and `nil` as `domain` means the daemon's first domain.
    package func aor(of user: ByteString, in domain: ByteString?) -> AddressOfRecord? {
        let host = (domain ?? identity.domains.first ?? .empty).lowercased()
        return !user.isEmpty && identity.domains.contains(host) ? AddressOfRecord(user: user, host: host) : nil
    }

}

/// Read access to the tables of the registrar and of the push ledger.
extension ProxyEngine {
    package var bindings: BindingTable { _read { yield registrar.bindings } }
    package var users: UserDirectory { _read { yield registrar.users } }
    package var buckets: BucketTable { _read { yield ledger.buckets } }
    package var unread: UnreadPushes { _read { yield ledger.unread } }
    package var timeline: PushTimeline { _read { yield ledger.timeline } }
}

/// Lists for operators the messages that wait for phones.
extension ProxyEngine {
    /// The messages that wait for phones of one user, oldest first.
    package func waitingMessages(of aor: AddressOfRecord) -> [StoredMessage] { messages.queue(of: aor).map(\.row) }

    /// One page of the messages that wait for phones of any user, oldest first.
    package func waitingMessages(
        after cursor: PageCursor, limit: Int, to isWanted: (AddressOfRecord) -> Bool = { _ in true }
    ) -> Page<StoredMessage> {
        let page = messages.page(after: cursor.number, limit: limit) { isWanted($0.aor) }.map(\.row)
        return Page(page, next: page.count == limit ? page.last.map { PageCursor($0.id) } : nil)
    }

    package func waitingMessage(_ id: UInt64) -> StoredMessage? { messages[id]?.row }
}

/// Reports the engine's counters and table sizes to operators.
extension ProxyEngine {
    /// The engine's counters and the sizes of its tables.
    package var figures: CounterSet {
        var figures = counters
        figures.set(.bindings, to: registrar.bindings.count)
        figures.set(.pushBindings, to: registrar.bindings.pushCount)
        figures.set(.addresses, to: registrar.bindings.addressCount)
        figures.set(.heldCalls, to: calls.offered)
        figures.set(.overload, to: Int(access.admission.pressure / Double(Admission.Kind.allCases.count) * 100))
        figures.set(.transactions, to: sip.transactions.serverCount + sip.transactions.clientCount)
        figures.set(.forks, to: calls.count)
        figures.set(.waitingMessages, to: messages.count)
        figures.set(.nodes, to: network.flows.nodes.map { $0.peerCount + 1 } ?? 0)
        figures.set(.nodeDuties, to: network.duties.isHeld ? 1 : 0)
        figures.set(.bucketEntries, to: ledger.buckets.entryCount)
        countUsers(in: &figures)
        figures.set(.tokensRemembered, to: access.bearer.rememberedCount)
        figures.set(.tokenIssuersAway, to: access.bearer.awayCount)
        figures.count(.tokenChecked, by: access.bearer.checkCount)
        figures.count(.timelineDropped, by: ledger.timeline.omitted)
        figures.merge(ledger.dispatcher.figures)
        return figures
    }

    private func countUsers(in figures: inout CounterSet) {
        let cache = access.users.cache
        figures.count(.userKnown, by: UInt64(cache.figures.known))
        figures.count(.userUnknown, by: UInt64(cache.figures.unknown))
        figures.count(.userUnusable, by: UInt64(cache.figures.unusable))
        figures.count(.userFailed, by: UInt64(cache.figures.failed))
        figures.count(.userLate, by: UInt64(cache.figures.late))
        figures.count(.userKept, by: UInt64(cache.figures.kept))
        figures.count(.userRefused, by: UInt64(cache.figures.refused))
        figures.set(.usersKnown, to: cache.knownCount)
        figures.set(.usersUnknown, to: cache.unknownCount)
        figures.set(.userQuestions, to: cache.openQuestions)
        figures.set(.userSourcesAway, to: cache.awayCount)
    }

    /// The figures about refresh pushes, for each push app that has sent a refresh push.
    package var refreshReports: [(app: PushApp, figures: RefreshPushes.Figures)] {
        ledger.dispatcher.directory.apps.compactMap { app in ledger.refreshes.figures[app.id].map { (app, $0) } }
    }

    package var pushReports: [(app: PushApp, report: PushAppReport)] { ledger.dispatcher.reports }

    func count(_ verdict: DigestAuthenticator.Verdict) {
        switch verdict {
        case .authenticated: output.counters.count(.credentialsAccepted)
        case .challenge: output.counters.count(.challengeSent)
        case .forbidden, .limited, .unavailable, .awaitingKeys: output.counters.count(.credentialsRefused)
        case .asking: break
        }
    }
}

extension Counter {
    init(_ method: Method) {
        switch method {
        case .register: self = .requestRegister
        case .invite: self = .requestInvite
        case .ack: self = .requestAck
        case .cancel: self = .requestCancel
        case .bye: self = .requestBye
        case .options: self = .requestOptions
        case .message: self = .requestMessage
        default: self = .requestOther
        }
    }

    init(_ status: Status) {
        switch status.statusClass {
        case 1: self = .response1xx
        case 2: self = .response2xx
        case 3: self = .response3xx
        case 4: self = .response4xx
        case 5: self = .response5xx
        default: self = .response6xx
        }
    }

    init(_ reason: UnusableMessage.Reason) {
        switch reason {
        case .tooManyHeaders, .headTooLarge, .uriTooLong, .bodyTooLarge: self = .rejectedTooLarge
        case .notSIP, .startLine, .version, .headerSyntax, .missing, .repeated, .methodMismatch, .contentLength,
            .forbiddenByte:
            self = .rejectedMalformed
        }
    }
}
