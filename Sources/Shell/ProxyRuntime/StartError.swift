package import Persistence
package import Reactor

/// Why the daemon does not start or a command fails, as a sentence for the operator.
package struct StartError: Error, CustomStringConvertible {
    package let description: String
    /// Whether the daemon or command failed because another process uses the store.
    package let isStoreInUse: Bool

    package init(_ sentence: String, isStoreInUse: Bool = false) {
        description = sentence
        self.isStoreInUse = isStoreInUse
    }
}

extension StartError {
    package init(_ error: StoreError) { self.init(error.description, isStoreInUse: error.isInUse) }

    /// Calls the store, and throws the store's error as a ``StartError``.
    package static func wrapping<Answer>(
        _ body: () async throws(StoreError) -> Answer
    ) async throws(StartError) -> Answer {
        do throws(StoreError) { return try await body() } catch { throw StartError(error) }
    }

    /// Creates the error for an address or socket file on which the program cannot listen. The text `place` is written
    /// as in the settings; `isFile` selects the hint for the operator.
    package static func cannotListen(on place: String, isFile: Bool = false, _ error: SystemError) -> StartError {
        let hint =
            error.isAddressInUse
            ? " by another program; is another sippushd running?"
            : error.isAddressUnknown
                ? ": this machine has no such address"
                : error.isPermissionDenied
                    ? isFile
                        ? ": this user may not write to the folder"
                        : ": ports below 1024 need CAP_NET_BIND_SERVICE or root"
                    : ""
        return StartError("cannot listen on \(place): \(error.reason)\(hint)")
    }
}
