package import AccessLimits
package import Addressing
package import Bytes
package import Calling
package import LocationService
package import Messaging
package import ProxyPolicy
package import PushDelivery
package import PushPlanning
package import Registration
package import Routing
package import ServiceEvents
package import Timekeeping

/// An order from the engine to its shell; the shell does all input and output. The shell performs actions in the order
/// in which the engine returns them.
package enum ProxyAction: Sendable {
    /// Write the bytes to a flow, and report a failure to ``ProxyEngine/sendFailed(on:now:)``. For a TCP or TLS flow
    /// with connection number 0, the shell uses any open connection to the remote endpoint, or opens a connection.
    case send([UInt8], on: Flow)
    /// Keep the given connection open, because its peer is authenticated (T17). The number `account` identifies the
    /// authenticated user; `nil` means that the peer was authenticated by an accepted REGISTER only.
    case flowProved(Flow, account: Int?)
    /// Use the given connection for requests to the given endpoint too, although the peer has opened the connection
    /// (RFC 5923).
    case reuse(Flow, as: Endpoint, ServerNumber)
    /// Close the flow's connection if the peer sends no keep-alive within the given time.
    case expectLife(Flow, every: Duration)
    /// Commit the given changes in one transaction, and report the commit with its ticket to
    /// ``ProxyEngine/committed(_:succeeded:now:)``.
    case commit([EngineChange], CommitTicket)
    /// Write the given change to the journal before performing any later action. A journaled change survives the end of
    /// the process, but perhaps not a power failure.
    case journal(CallChange)
    /// Write the given changes to the store soon, without a report to the engine; a crash before the write loses the
    /// changes.
    case record([EngineChange])
    /// Write the given refreshed bindings to the store when the store is idle; a crash may lose the write without harm.
    case refresh([StoredBinding])
    /// Write the given records into the timeline; if too many records wait, drop the given records.
    case trace([TimelineChange])
    /// Write the end of a call to the traces. The engine returns this action only after ``ProxyEngine/reportsEnds(_:)``
    /// was called.
    indirect case callEnded(EndedCallReport)
    /// Write the given event to the log of events before any later action is performed. The engine returns this action
    /// only after ``ProxyEngine/reportsEvents(_:)`` was called.
    case tell(ServiceEvent)
    /// Store the given upper bound for the CSeq numbers of the daemon's own REGISTERs, then call
    /// ``ProxyEngine/registerCeilingStored(_:now:)``.
    case storeRegisterCeiling(UInt32)
    /// Send the result to the HTTP client that reported or removed a device.
    case reported(ReportTicket, ReportResult)
    /// Send a push to its provider, and report the result to ``ProxyEngine/pushHappened(_:now:)``.
    case push(PushDispatcher.Transmission)
    /// Make a credential for a push provider, and report the credential to ``ProxyEngine/pushHappened(_:now:)``.
    case makeCredential(PushCredentials.Order)
    /// Tell a client whether a push token can get pushes. The client has asked for a check of the token.
    case dryRunEnded(DryRunTicket, canBePushed: Bool)
    /// Report the result of a test push to the operator who ordered it.
    indirect case testPushEnded(TestPushTicket, TimelineRecord)
    /// Ask a source of users (a database or HTTP server) about a user, and report the answer to
    /// ``ProxyEngine/userAnswered(_:_:now:)``.
    indirect case askUser(UserQuestion)
    /// Read the keys of the token issuer with the given index in ``BearerRules/issuers``, and report the keys to
    /// ``ProxyEngine/keysRead(_:of:now:)``.
    case readKeys(issuer: Int)
    /// Continue the HTTP login with the given ticket, because the source of users has answered.
    case userSettled(LoginTicket)
    /// Read the given users from the store, and report them to ``ProxyEngine/usersRead(_:_:now:)``.
    ///
    /// If `waiting` is not `nil`, first commit that something waits at this node for phones of a user. The node that
    /// commits last, this node or the phone's node, sees the commit of the other node.
    indirect case readUsers(UserReads.Question, waiting: Announcement?)
    /// Continue the operator's question with the given ticket, because the store has answered, or does not answer.
    case userLookedUp(LookTicket, isFresh: Bool)
    /// Ask the store at which other nodes something waits for phones of the given user, and report the nodes to
    /// ``ProxyEngine/nodesFound(waitingFor:_:now:)``.
    case findNodes(waitingFor: AddressOfRecord)
    /// Commit soon that nothing waits at this node for phones of the given users any more.
    case endWaiting([AddressOfRecord])
    /// Commit soon that the INVITE with the given Call-ID no longer waits for phones of the user.
    case endInvite(AddressOfRecord, callID: ByteString)
    /// Search one page of the store's contacts, and report them to ``ProxyEngine/contactsFound(_:_:now:)``.
    case findContacts(ContactSearch.Question)
    /// Read the ceiling of CSeq numbers that ``storeRegisterCeiling(_:)`` has stored at any node, and report it to
    /// ``ProxyEngine/registerCeilingRead(_:now:)``.
    case readRegisterCeiling
    /// Look up the addresses of a host name, and report the addresses to ``ProxyEngine/resolved(_:to:now:)``.
    case resolve(NextHop, ResolutionTicket)
}

/// A change of the store that the engine orders: a row to write or to delete.
package enum EngineChange: Sendable {
    case binding(BindingChange)
    case bucket(StoredBucketChange)
    indirect case message(MessageChange)
    /// Store a dead push token for application servers; the daemon never reads stored dead tokens.
    case deadToken(DeadToken)
    /// Store the new expiry time of a renewed dialog; the number is a hash of the dialog token.
    case dialogRenewed(UInt64, until: UnixTime)
    /// Store the rules of a user for calls, in place of the user's earlier rules.
    indirect case userRules(StoredUserRules)
}
