import CEvent
import Glibc

/// A user with its groups, for checks of file permissions.
package struct FileIdentity: Hashable, Sendable {
    package let name: String
    package let user: UInt32
    package let group: UInt32
    /// The groups other than the user's main group.
    package let groups: [UInt32]

    package init(name: String, user: UInt32, group: UInt32, groups: [UInt32] = []) {
        self.name = name
        self.user = user
        self.group = group
        self.groups = groups
    }

    package func isIn(_ group: UInt32) -> Bool { group == self.group || groups.contains(group) }
}

extension FileIdentity {
    /// The user of the daemon's process.
    package static var own: FileIdentity {
        let (user, group) = (geteuid(), getegid())
        return FileIdentity(name: userName(user) ?? "\(user)", user: user, group: group, groups: ownGroups)
    }

    /// Finds a user of this machine by name or number.
    ///
    /// - Parameters:
    ///   - name: the name or number of the Unix user.
    ///   - group: replaces the user's main group.
    ///   - more: groups added to the user's own groups.
    /// - Returns: the user; `nil` if the machine has no such user.
    package static func named(_ name: String, group: String? = nil, more: [String] = []) -> FileIdentity? {
        guard let entry = unsafe getpwnam(name) ?? UInt32(name).flatMap({ unsafe getpwuid($0) }) else { return nil }
        let (user, own) = unsafe (entry.pointee.pw_uid, entry.pointee.pw_gid)
        let main = group.flatMap(groupNumber) ?? own
        var list = [gid_t](repeating: 0, count: 256)
        var count = Int32(list.count)
        let isWhole = unsafe getgrouplist(name, main, &list, &count) >= 0
        let found = isWhole ? list.prefix(Int(max(0, count))) : [main]
        return FileIdentity(
            name: name, user: user, group: main, groups: found.filter { $0 != main } + more.compactMap(groupNumber))
    }

    private static var ownGroups: [UInt32] {
        var list = [gid_t](repeating: 0, count: 256)
        let count = unsafe getgroups(Int32(list.count), &list)
        return count > 0 ? Array(list.prefix(Int(count))) : []
    }

    package static func userName(_ number: UInt32) -> String? {
        unsafe getpwuid(number).map { unsafe String(cString: $0.pointee.pw_name) }
    }

    package static func groupName(_ number: UInt32) -> String? {
        unsafe getgrgid(number).map { unsafe String(cString: $0.pointee.gr_name) }
    }

    private static func groupNumber(_ name: String) -> UInt32? {
        unsafe getgrnam(name).map { unsafe $0.pointee.gr_gid } ?? UInt32(name)
    }
}

/// The use of a file or folder that a user needs.
package enum FileWish: String, Hashable, Sendable {
    case read
    case write
    /// The user creates and removes files in the folder.
    case fill
    /// The user reaches a file below the folder.
    case enter

    fileprivate var mode: Int32 {
        switch self {
        case .read: R_OK
        case .write: R_OK | W_OK
        case .fill: R_OK | W_OK | X_OK
        case .enter: X_OK
        }
    }
}

package struct FileStatus: Hashable, Sendable {
    package let path: String
    package let user: UInt32
    package let group: UInt32
    /// The nine permission bits, as in `chmod`.
    package let mode: UInt32
    package let isFolder: Bool
    /// The access control list in the kernel's form; empty if the file has no list.
    package let accessList: [UInt8]

    package init(
        path: String, user: UInt32, group: UInt32, mode: UInt32, isFolder: Bool = false, accessList: [UInt8] = []
    ) {
        self.path = path
        self.user = user
        self.group = group
        self.mode = mode
        self.isFolder = isFolder
        self.accessList = accessList
    }

    /// Reads owner, group, permissions and kind of a file. The result is `nil` if the file is missing, or if this
    /// process may not examine the file.
    package init?(of path: String) {
        var found = stat()
        guard unsafe stat(path, &found) == 0 else { return nil }
        var list = [UInt8](repeating: 0, count: 4096)
        let length = unsafe access_list_of(path, &list, list.count)
        self.init(
            path: path, user: found.st_uid, group: found.st_gid, mode: found.st_mode & 0o777,
            isFolder: found.st_mode & S_IFMT == S_IFDIR, accessList: length > 0 ? Array(list.prefix(length)) : [])
    }

    /// The path with all symbolic links resolved; `nil` if the file is missing or this process may not examine it.
    package static func real(_ path: String) -> String? {
        guard let name = unsafe realpath(path, nil) else { return nil }
        defer { unsafe free(name) }
        return unsafe String(cString: name)
    }
}

/// Asks the kernel whether a user may use a file or folder in a given way.
package enum FileAccess {
    package enum Answer: Hashable, Sendable {
        case allowed
        case refused(SystemError)
        /// The kernel cannot be asked, because this process may not act as the user.
        case unknown
    }

    package static func answer(to wish: FileWish, of identity: FileIdentity, at path: String) -> Answer {
        let code: Int32
        if identity.user == geteuid(), identity.user != 0 {
            code = unsafe access_as_self(path, wish.mode)
        } else {
            code = unsafe access_as(
                identity.user, identity.group, identity.groups, identity.groups.count, path, wish.mode)
        }
        return switch code {
        case 0: .allowed
        case -1: .unknown
        default: .refused(SystemError(call: "access", code: code))
        }
    }
}
