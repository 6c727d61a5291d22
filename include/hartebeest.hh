/* SPDX-License-Identifier: MIT */
/*
 * hartebeest.hh - the C++ classes of the original Hartebeest, header only, C++11
 *
 * For programs written for the original: they compile and run unchanged, linked with
 * -lhartebeest.  This header replaces all of the original's.  The functions of
 * hartebeest-c.h do the work, and their rules hold here, too: the process has one default
 * context, true means success, and after false the reason is in hartebeest_error()
 * (hartebeest.h) and in a line on stderr.  For new programs hartebeest-raii.hh has
 * classes of its own.
 *
 * The core owns what it creates and fetches; these objects live as long as the process.
 * Many threads may call all functions at once, but get_resrc_map() returns a map that
 * others may be changing.
 */
#ifndef HARTEBEEST_HH
#define HARTEBEEST_HH

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include <infiniband/verbs.h>

#include "hartebeest-c.h"
#include "hartebeest.h"

namespace hartebeest {

/* --------------------------------------------------------- return codes --- */

enum EncodedRetCodes {
	UNDEFINED = 0,
	HCA_RETCODE_RESET_OK, HCA_RETCODE_RESET_ERR,
	HCA_RETCODE_OPEN_OK, HCA_RETCODE_OPEN_ERR,
	HCA_RETCODE_REGISTER_OK,
	HCAINITR_RETCODE_OPEN_OK, HCAINITR_RETCODE_RANGE_ERR, HCAINITR_RETCODE_UNINIT_ERR,
	HCAINITR_RETCODE_NOCTX_ERR, HCAINITR_RETCODE_PORT_QUERY_ERR, HCAINITR_RETCODE_NO_IB,
	HCAINITR_RETCODE_BIND_PORT_OK,
	CACHE_RETCODE_ALREADY_EXIST_ERR, CACHE_RETCODE_NO_EXIST_ERR, CACHE_RETCODE_REGISTER_OK,
	PD_RETCODE_CREATE_MR_ERR, PD_RETCODE_CREATE_MR_OK, PD_RETCODE_IB_REG_MR_ERR,
	PD_RETCODE_CREATE_QP_ERR, PD_RETCODE_CREATE_QP_OK,
	CFGLDR_RETCODE_FILE_NOT_FOUND, CFGLDR_RETCODE_ENVVAR_NOT_FOUND, CFGLDR_RETCODE_OK,
	CFGLDR_JSON_ERR, CFGLDR_KEY_NOT_FOUND,
	QP_TRANSITION_2_INIT_OK, QP_TRANSITION_2_INIT_ERR,
	QP_TRANSITION_2_RTR_OK, QP_TRANSITION_2_RTR_ERR,
	QP_TRANSITION_2_RTS_OK, QP_TRANSITION_2_RTS_ERR,
	MEMCH_SET_OK, MEMCH_SET_ERR, MEMCH_GET_OK, MEMCH_GET_ERR, MEMCH_DEL_OK, MEMCH_DEL_ERR,
	COMPOUND
};

/* aux_str is the code in words; after a failure in this header, it is hartebeest_error(). */
struct Retcode {
	uint32_t ret_code;
	std::string aux_str;

	Retcode() : ret_code(UNDEFINED), aux_str(words(UNDEFINED)) {}
	Retcode(uint32_t code) : ret_code(code), aux_str(words(code)) {}
	Retcode(uint32_t code, const char *text) : ret_code(code), aux_str(text) {}

	void append_str(uint32_t code) { append_str(code, words(code)); }

	void append_str(uint32_t, const char *text)
	{
		ret_code = COMPOUND;
		aux_str.append(", ").append(text);
	}

	static const char *words(uint32_t code)
	{
		static const char *const texts[] = {
			"undefined",
			"HCA: reset", "HCA: not reset", "HCA: opened", "HCA: not opened",
			"HCA: registered",
			"HCAs: opened", "HCAs: no such number", "HCAs: there is none",
			"HCAs: not opened yet", "HCAs: the port cannot be used",
			"HCAs: the port is not InfiniBand", "HCAs: port bound",
			"cache: the name is taken", "cache: no such name", "cache: done",
			"PD: no memory region made", "PD: memory region made",
			"PD: memory region not registered", "PD: no queue pair made",
			"PD: queue pair made",
			"settings: no such file", "settings: a variable is not set",
			"settings: read", "settings: not understood", "settings: no such key",
			"QP: INIT", "QP: not INIT", "QP: RTR", "QP: not RTR", "QP: RTS",
			"QP: not RTS",
			"Memcached: set", "Memcached: not set", "Memcached: got",
			"Memcached: not got", "Memcached: deleted", "Memcached: not deleted",
			"several",
		};

		return texts[code <= COMPOUND ? code : 0];
	}
};

} /* namespace hartebeest */

typedef hartebeest::Retcode hb_retcode;

namespace hartebeest {

/* Returns @good, or @bad with the sentence of the call that has just failed. */
inline hb_retcode retcode_of(bool done, uint32_t good, uint32_t bad)
{
	return done ? hb_retcode(good) : hb_retcode(bad, hartebeest_error());
}

/* --------------------------------------------------------------- logger --- */

/* Formats a line as fmt does: {}, {0}, {:04x}, {:.2f}, {:>8}, and {{ for a brace. */
class Line {
public:
	template <class... Values>
	static std::string of(const std::string &format, const Values &...values)
	{
		std::string line;
		size_t next = 0;

		for (size_t i = 0; i < format.size(); i++) {
			const char byte = format[i];
			const bool is_brace = byte == '{' || byte == '}';
			const size_t end = byte == '{' ? format.find('}', i) : std::string::npos;

			if (is_brace && i + 1 < format.size() && format[i + 1] == byte) {
				line += byte;
				i++;
			} else if (end == std::string::npos) {
				line += byte;
			} else {
				line += field(format.substr(i + 1, end - i - 1), next, values...);
				i = end;
			}
		}
		return line;
	}

private:
	/* @inside: a number (by default the next one) and, after ':', the form. */
	template <class... Values>
	static std::string field(const std::string &inside, size_t &next, const Values &...values)
	{
		const size_t colon = inside.find(':');
		const std::string number = inside.substr(0, colon);
		const size_t which = number.empty() ? next++ :
						      std::strtoul(number.c_str(), nullptr, 10);

		if (which >= sizeof...(values))
			return "{" + inside + "}";
		return nth(which, colon == std::string::npos ? "" : inside.substr(colon + 1),
			   values...);
	}

	static std::string nth(size_t, const std::string &) { return ""; }

	template <class Value, class... Values>
	static std::string nth(size_t which, const std::string &form, const Value &value,
			       const Values &...values)
	{
		return which ? nth(which - 1, form, values...) : formed(form, value);
	}

	/* Applies @form, [[fill]align][sign][#][0][width][.precision][type], to a stream. */
	template <class Value>
	static std::string formed(const std::string &form, const Value &value)
	{
		const char *at = form.c_str();
		std::ostringstream text;
		char *end;

		text << std::boolalpha;
		text.setf(std::is_arithmetic<Value>::value ? std::ios::right : std::ios::left,
			  std::ios::adjustfield);
		if (*at && is_one_of("<>^", at[1]))
			text.fill(*at++);
		if (is_one_of("<>^", *at))
			text.setf(*at++ == '>' ? std::ios::right : std::ios::left,
				  std::ios::adjustfield);
		if (is_one_of("+- ", *at) && *at++ == '+')
			text << std::showpos;
		if (*at == '#' && at++)
			text << std::showbase << std::showpoint;
		if (*at == '0' && at++) {
			text << std::internal;
			text.fill('0');
		}
		text.width(std::strtol(at, &end, 10));
		if (std::is_floating_point<Value>::value && !*end)
			text.precision(
				std::numeric_limits<typename std::decay<Value>::type>::digits10);
		if (*end == '.')
			text.precision(std::strtol(end + 1, &end, 10));
		put(text, *end, value);
		return text.str();
	}

	static bool is_one_of(const char *set, char byte) { return byte && std::strchr(set, byte); }

	static void set_type(std::ostream &text, char type)
	{
		if (is_one_of("xXp", type))
			text << std::hex;
		if (type == 'o')
			text << std::oct;
		if (is_one_of("fF", type))
			text << std::fixed;
		if (is_one_of("eE", type))
			text << std::scientific;
		if (is_one_of("XEFG", type))
			text << std::uppercase;
	}

	template <class Value>
	static void put(std::ostream &text, char type, const Value &value)
	{
		set_type(text, type);
		text << value;
	}

	/* As in fmt, bytes are numbers unless they are plain char. */
	static void put(std::ostream &text, char type, unsigned char value)
	{
		put(text, type, static_cast<unsigned int>(value));
	}

	static void put(std::ostream &text, char type, signed char value)
	{
		put(text, type, static_cast<int>(value));
	}

	static void put(std::ostream &text, char type, char value)
	{
		if (!type || type == 'c')
			text << value;
		else
			put(text, type, static_cast<int>(value));
	}

	static void put(std::ostream &text, char type, bool value)
	{
		if (!type || type == 's')
			text << value;
		else
			put(text, type, static_cast<int>(value));
	}
};

/*
 * The part of spdlog's logger that HB_CLOGGER offers: it writes lines to stdout, such as
 * "[HB:info] text".  Levels are spdlog's numbers, from 0 (trace) to 5 (critical), and 6
 * for no lines; the default is 2 (info).
 */
class Logger {
public:
	explicit Logger(const std::string &given) : id(given), lowest(2) {}

	const std::string &name() const { return id; }
	int level() const { return lowest; }
	void set_level(int level) { lowest = level; }
	bool should_log(int level) const { return level >= lowest; }
	void flush() { std::cout.flush(); }

	template <class Text, class... Values>
	void trace(const Text &format, const Values &...values) { log(0, format, values...); }

	template <class Text, class... Values>
	void debug(const Text &format, const Values &...values) { log(1, format, values...); }

	template <class Text, class... Values>
	void info(const Text &format, const Values &...values) { log(2, format, values...); }

	template <class Text, class... Values>
	void warn(const Text &format, const Values &...values) { log(3, format, values...); }

	template <class Text, class... Values>
	void error(const Text &format, const Values &...values) { log(4, format, values...); }

	template <class Text, class... Values>
	void critical(const Text &format, const Values &...values) { log(5, format, values...); }

	template <class Value, class... Values>
	void log(int level, const std::string &format, const Value &value, const Values &...values)
	{
		if (should_log(level))
			write(level, Line::of(format, value, values...));
	}

	/* A text without values is not taken as a format. */
	template <class Text>
	void log(int level, const Text &text)
	{
		if (should_log(level))
			write(level, Line::of("{}", text));
	}

private:
	const std::string id;
	int lowest;
	std::mutex lock;

	void write(int level, const std::string &text)
	{
		static const char *const levels[] = {
			"trace", "debug", "info", "warning", "error", "critical",
		};
		const std::string word = levels[level < 0 ? 0 : level > 5 ? 5 : level];
		const std::string line = "[" + id + ":" + word + "] " + text + "\n";
		std::lock_guard<std::mutex> hold(lock);

		std::cout << line << std::flush;
	}
};

class ConsoleLogger {
public:
	explicit ConsoleLogger(const char *name) : logger(name) {}

	static ConsoleLogger &get_instance()
	{
		static ConsoleLogger global("HB");
		return global;
	}

	Logger *get_logger() { return &logger; }

private:
	Logger logger;
};

} /* namespace hartebeest */

/* A program may define it before, for instance as its own spdlog logger. */
#ifndef HB_CLOGGER
#define HB_CLOGGER hartebeest::ConsoleLogger::get_instance().get_logger()
#endif

namespace hartebeest {

/* --------------------------------------------------------- names, memory --- */

/* Bytes of a name.  The original allowed 128. */
const uint32_t NAME_STR_MAX = 255;

/* A zeroed buffer of @length bytes for free_buffer(); nullptr if there is no memory. */
inline uint8_t *alloc_buffer(size_t length, int alignment = 64)
{
	void *buffer = nullptr;

	if (posix_memalign(&buffer, static_cast<size_t>(alignment), length))
		return nullptr;
	return static_cast<uint8_t *>(std::memset(buffer, 0, length));
}

inline void free_buffer(uint8_t *buffer) { std::free(buffer); }

/* Objects by name.  Owns those that the core stored, and no others. */
template <class T>
class ResourceCache {
public:
	ResourceCache() : name("ANONYMOUS-RESRC-CACHE") {}
	ResourceCache(const char *key) : name(key) {}

	hb_retcode register_resrc(const char *key, T *object)
	{
		std::lock_guard<std::mutex> hold(lock);
		const bool is_new = objects.insert(std::make_pair(std::string(key), object)).second;

		return hb_retcode(is_new ? CACHE_RETCODE_REGISTER_OK :
					   CACHE_RETCODE_ALREADY_EXIST_ERR);
	}

	hb_retcode deregister_resrc(const char *key)
	{
		std::lock_guard<std::mutex> hold(lock);

		return hb_retcode(objects.erase(key) ? CACHE_RETCODE_REGISTER_OK :
						       CACHE_RETCODE_NO_EXIST_ERR);
	}

	bool is_registered(const char *key) { return get_resrc(key); }
	const char *get_name() const { return name.c_str(); }

	T *get_resrc(const char *key)
	{
		std::lock_guard<std::mutex> hold(lock);
		const typename std::map<std::string, T *>::iterator found = objects.find(key);

		return found == objects.end() ? nullptr : found->second;
	}

	std::map<std::string, T *> &get_resrc_map() { return objects; }

	void out_cache_status()
	{
		std::lock_guard<std::mutex> hold(lock);

		for (const auto &object : objects)
			HB_CLOGGER->info("Status {} <{}, 0x{:x}>", name, object.first,
					 reinterpret_cast<uintptr_t>(object.second));
	}

	/* The object of this name, made or updated for @verbs; nullptr for nullptr. */
	template <class Verbs, class... More>
	T *obtain(const char *key, Verbs *verbs, const More &...more)
	{
		if (!verbs)
			return nullptr;

		std::lock_guard<std::mutex> hold(lock);
		T *&object = objects[key];

		if (!object) {
			owned.emplace_back(new T(key, verbs, more...));
			object = owned.back().get();
		}
		object->take(verbs);
		return object;
	}

	template <class Condition>
	T *find_if(const Condition &condition)
	{
		std::lock_guard<std::mutex> hold(lock);

		for (const auto &object : objects)
			if (condition(object.second))
				return object.second;
		return nullptr;
	}

private:
	std::string name;
	std::map<std::string, T *> objects;
	std::vector<std::unique_ptr<T>> owned;
	std::mutex lock;
};

/* ------------------------------------------------------------- settings --- */

#define MAX_ENVVARS 4

struct ConfVar {
	const char *varname;
	char *val;
};

struct ConfPair {
	const char *key;
	int val;
};

struct ConfDict {
	const char *key;
	int n_elem;
	struct ConfPair *conf;
};

enum { PDEF_CQ_ATTR, PDEF_QP_INIT_ATTR, PDEF_QP_ATTR };
enum { SYSVAR_PARTICIPANTS, SYSVAR_NID, SYSVAR_EXEC_IP_PORT, SYSVAR_CONF_PATH };

/*
 * The settings of the default context, from all their sources.  The settings file is the
 * one that HARTEBEEST_CONF_PATH names; the constructor's argument is ignored.
 */
class ConfigLoader {
public:
	ConfigLoader(const char * = "./hb_config.json") {}

	static ConfigLoader &get_instance()
	{
		static ConfigLoader loader;
		return loader;
	}

	/* CONF_PATH may be missing, and a launcher may give the others. */
	hb_retcode init_sysvars()
	{
		const bool is_known = get_sysvar("HARTEBEEST_NID") &&
				      get_sysvar("HARTEBEEST_NPARTICIPANTS") &&
				      get_sysvar("HARTEBEEST_EXC_IP_PORT");

		return retcode_of(is_known, CFGLDR_RETCODE_OK, CFGLDR_RETCODE_ENVVAR_NOT_FOUND);
	}

	hb_retcode init_params()
	{
		return retcode_of(hartebeest_default_context(), CFGLDR_RETCODE_OK, CFGLDR_JSON_ERR);
	}

	char *get_sysvar(const char *name) { return hartebeest_get_sysvar(name); }

	/*
	 * The value of "cq_depth", "rc:path_mtu", or "path_mtu" for RC; -1: auto.
	 * nullptr: no such key.  It is a copy: writing to it changes no setting.
	 */
	int *get_attr(const char *key)
	{
		static const char *const sections[] = { "cq_attr.", "qp_init_attr.", "qp_attr." };
		static std::mutex lock;
		std::lock_guard<std::mutex> hold(lock);
		char text[64];

		for (const char *section : sections) {
			const std::string option = std::string(section) + key;

			if (hartebeest_option_get(hartebeest_default_context(), option.c_str(),
						  text, sizeof(text), nullptr) < 0)
				continue;
			attributes[key] = std::strcmp(text, "auto") == 0 ? -1 :
					  static_cast<int>(std::strtol(text, nullptr, 0));
			return &attributes[key];
		}
		return nullptr;
	}

private:
	std::map<std::string, int> attributes;
};

/* --------------------------------------------------------------- device --- */

/* A device that the program opens itself, or the one that the library uses. */
class Hca final {
public:
	Hca() : Hca(nullptr) {}
	explicit Hca(struct ibv_device *found) : device(found), context(nullptr), is_own(false),
						  attr(), port(0), lid(0) {}
	~Hca() { device_reset(); }

	Hca(const Hca &) = delete;
	Hca &operator=(const Hca &) = delete;

	hb_retcode device_register(struct ibv_device *found)
	{
		device = found;
		return hb_retcode(HCA_RETCODE_REGISTER_OK);
	}

	hb_retcode device_reset()
	{
		const bool is_closed = !is_own || ibv_close_device(context) == 0;

		context = nullptr;
		is_own = false;
		return hb_retcode(is_closed ? HCA_RETCODE_RESET_OK : HCA_RETCODE_RESET_ERR);
	}

	hb_retcode device_open()
	{
		device_reset();
		context = device ? ibv_open_device(device) : nullptr;
		is_own = context;
		return hb_retcode(read_attr() ? HCA_RETCODE_OPEN_OK : HCA_RETCODE_OPEN_ERR);
	}

	struct ibv_context *get_device_ctx() { return context; }
	struct ibv_device_attr &get_device_attr() { return attr; }
	uint8_t get_device_pid() const { return port; }
	uint16_t get_device_plid() const { return lid; }
	void set_device_pid(uint8_t number) { port = number; }
	void set_device_plid(uint16_t number) { lid = number; }

private:
	friend class HcaInitializer;

	struct ibv_device *device;
	struct ibv_context *context;
	bool is_own;
	struct ibv_device_attr attr;
	uint8_t port;
	uint16_t lid;

	bool read_attr() { return context && ibv_query_device(context, &attr) == 0; }

	/* Takes the library's device, which the library closes. */
	bool borrow()
	{
		struct ibv_port_attr port_attr;
		int number;

		if (hartebeest_verbs(hartebeest_default_context(), &context) < 0 || !read_attr())
			return false;
		device = context->device;
		number = hartebeest_port_num(hartebeest_default_context());
		port = static_cast<uint8_t>(number);
		if (number < 0 || ibv_query_port(context, port, &port_attr))
			return false;
		lid = port_attr.lid;
		return true;
	}
};

/* The library uses one device, which is number 0 here; HARTEBEEST_DEVICE chooses it. */
class HcaInitializer final {
public:
	HcaInitializer() : is_open(hca.borrow()) {}

	static HcaInitializer &get_instance()
	{
		static HcaInitializer initializer;
		return initializer;
	}

	hb_retcode open_device(int index)
	{
		return is_open && index == 0 ? hb_retcode(HCAINITR_RETCODE_OPEN_OK) :
					       hb_retcode(HCAINITR_RETCODE_RANGE_ERR);
	}

	hb_retcode bind_port(int index, uint8_t port)
	{
		if (!is_open || index != 0)
			return hb_retcode(HCAINITR_RETCODE_RANGE_ERR);
		return port == hca.get_device_pid() ? hb_retcode(HCAINITR_RETCODE_BIND_PORT_OK) :
						      hb_retcode(HCAINITR_RETCODE_PORT_QUERY_ERR);
	}

	int get_n_hca_devs() const { return is_open; }

	Hca &get_hca(int index)
	{
		if (!is_open || index != 0)
			throw std::out_of_range("hartebeest: HCA " + std::to_string(index));
		return hca;
	}

private:
	Hca hca;
	bool is_open;
};

/* -------------------------------------------------------------- objects --- */

/* Writes and reads "name:1f:20", a name and numbers in hexadecimal. */
class Flat {
public:
	explicit Flat(const std::string &first) : text(first) {}

	Flat &operator<<(unsigned long long number)
	{
		text += ":" + Line::of("{:x}", number);
		return *this;
	}

	/* Removes the last number and returns it. */
	unsigned long long pop()
	{
		const size_t colon = text.rfind(':');
		const std::string last = colon == std::string::npos ? "" : text.substr(colon + 1);

		text.erase(colon == std::string::npos ? text.size() : colon);
		return std::strtoull(last.c_str(), nullptr, 16);
	}

	const std::string &str() const { return text; }

private:
	std::string text;
};

enum MrType { MR_TYPE_UNKNOWN, MR_TYPE_LOCAL, MR_TYPE_REMOTE };

/*
 * A memory region.  For a remote one, get_mr() has addr, length and rkey, and addr is the
 * peer's.
 */
class Mr {
public:
	explicit Mr(size_t length) : Mr("ANONYMOUS-MR", length) {}

	/* Allocates a buffer without a region, which set_mr() adds. */
	Mr(const char *key, size_t length)
		: name(key), type(length ? MR_TYPE_LOCAL : MR_TYPE_UNKNOWN),
		  own(length ? alloc_buffer(length) : nullptr), mr(nullptr), copy(),
		  is_library(false) {}

	~Mr()
	{
		if (mr && !copy && !is_library)
			ibv_dereg_mr(mr);
		free_buffer(own);
	}

	Mr(const Mr &) = delete;
	Mr &operator=(const Mr &) = delete;

	bool is_allocated() const { return get_buffer(); }
	bool is_mr_created() const { return mr; }
	const char *get_name() const { return name.c_str(); }
	uint8_t *get_buffer() const { return own || !mr ? own : static_cast<uint8_t *>(mr->addr); }
	struct ibv_mr *get_mr() const { return mr; }
	void set_mr(struct ibv_mr *registered) { mr = registered; }
	void set_type(enum MrType where) { type = where; }

	std::string flatten_info()
	{
		Flat flat(name);

		if (mr)
			flat << reinterpret_cast<uintptr_t>(mr->addr) << mr->length << mr->lkey
			     << mr->rkey;
		return flat.str();
	}

	void unflatten_info(const char *text)
	{
		Flat flat(text);

		copy.reset(new ibv_mr());
		mr = copy.get();
		mr->rkey = static_cast<uint32_t>(flat.pop());
		mr->lkey = static_cast<uint32_t>(flat.pop());
		mr->length = static_cast<size_t>(flat.pop());
		mr->addr = reinterpret_cast<void *>(static_cast<uintptr_t>(flat.pop()));
		name = flat.str();
	}

private:
	friend class ResourceCache<Mr>;

	std::string name;
	enum MrType type;
	uint8_t *own;
	struct ibv_mr *mr;
	std::unique_ptr<struct ibv_mr> copy;
	bool is_library;

	Mr(const char *key, struct ibv_mr *made, enum MrType where)
		: name(key), type(where), own(nullptr), mr(made), copy(), is_library(true) {}

	void take(struct ibv_mr *made) { mr = made; }
};

class BasicCq {
public:
	BasicCq(const char *key, Hca &) : name(key), cq(nullptr)
	{
		if (hartebeest_create_basiccq(key))
			hartebeest_cq_get(hartebeest_default_context(), key, &cq);
	}

	struct ibv_cq *get_cq() { return cq; }
	const char *get_name() const { return name.c_str(); }

private:
	friend class ResourceCache<BasicCq>;

	std::string name;
	struct ibv_cq *cq;

	BasicCq(const char *key, struct ibv_cq *made) : name(key), cq(made) {}
	void take(struct ibv_cq *made) { cq = made; }
};

class BasicCqCache : public ResourceCache<BasicCq> {
public:
	BasicCqCache(const char *key) : ResourceCache<BasicCq>(key) {}

	static BasicCqCache &get_instance()
	{
		static BasicCqCache global("SINGLETON_BASICCQ_CACHE");
		return global;
	}

	/* Returns "" for a queue that hartebeest_create_basiccq() did not make. */
	std::string name_of(const struct ibv_cq *cq)
	{
		const BasicCq *found =
			find_if([cq](BasicCq *object) { return object->get_cq() == cq; });

		return found ? found->get_name() : "";
	}
};

enum QpType { QP_TYPE_UNKNOWN, QP_TYPE_LOCAL, QP_TYPE_REMOTE };

class Pd;

/* A queue pair.  For a remote one, get_qp() has qp_num and qp_type. */
class Qp {
public:
	/* Creates it in @pd, with queues of create_basiccq().  @pd nullptr: makes nothing. */
	Qp(const char *key, enum ibv_qp_type type, Pd *pd, struct ibv_cq *send,
	   struct ibv_cq *recv);

	Qp(const Qp &) = delete;
	Qp &operator=(const Qp &) = delete;

	void set_type(enum QpType where) { pos_type = where; }
	bool is_qp_created() const { return qp; }
	struct ibv_qp *get_qp() { return qp; }
	const char *get_name() const { return name.c_str(); }

	/* The enum ibv_qp_state that the device reports. */
	int query_state()
	{
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		if (!is_local() || ibv_query_qp(qp, &attr, IBV_QP_STATE, &init))
			return IBV_QPS_UNKNOWN;
		return attr.qp_state;
	}

	hb_retcode transit_init()
	{
		return retcode_of(hartebeest_init_local_qp(pd_name.c_str(), name.c_str()),
				  QP_TRANSITION_2_INIT_OK, QP_TRANSITION_2_INIT_ERR);
	}

	/* Goes to RTS at once: both ends agree on RTR and RTS before RTR. */
	hb_retcode transit_rtr(Qp *remote)
	{
		const char *key = remote ? remote->get_name() : nullptr;

		return retcode_of(hartebeest_connect_local_qp(pd_name.c_str(), name.c_str(), key),
				  QP_TRANSITION_2_RTR_OK, QP_TRANSITION_2_RTR_ERR);
	}

	hb_retcode transit_rts()
	{
		return hb_retcode(query_state() == IBV_QPS_RTS ? QP_TRANSITION_2_RTS_OK :
								 QP_TRANSITION_2_RTS_ERR);
	}

	/* Port and LID of this end; 0 for a fetched one, whose path the library finds. */
	uint8_t get_pid() { return is_local() ? hca().get_device_pid() : pid; }
	uint16_t get_plid() { return is_local() ? hca().get_device_plid() : plid; }

	std::string flatten_info()
	{
		Flat flat(name);

		flat << (qp ? qp->qp_num : 0) << get_pid() << get_plid()
		     << static_cast<unsigned int>(qp ? qp->qp_type : 0);
		return flat.str();
	}

	void unflatten_info(const char *text)
	{
		Flat flat(text);

		copy.reset(new ibv_qp());
		qp = copy.get();
		pos_type = QP_TYPE_REMOTE;
		qp->qp_type = static_cast<enum ibv_qp_type>(flat.pop());
		plid = static_cast<uint16_t>(flat.pop());
		pid = static_cast<uint8_t>(flat.pop());
		qp->qp_num = static_cast<uint32_t>(flat.pop());
		name = flat.str();
	}

private:
	friend class ResourceCache<Qp>;

	std::string name, pd_name;
	enum QpType pos_type;
	struct ibv_qp *qp;
	std::unique_ptr<struct ibv_qp> copy;
	uint8_t pid;
	uint16_t plid;

	/* @pd "": the queue pair was fetched. */
	Qp(const char *key, struct ibv_qp *made, const std::string &pd)
		: name(key), pd_name(pd),
		  pos_type(pd.empty() ? QP_TYPE_REMOTE : QP_TYPE_LOCAL),
		  qp(made), copy(), pid(0), plid(0) {}

	void take(struct ibv_qp *made) { qp = made; }
	bool is_local() const { return pos_type == QP_TYPE_LOCAL && qp; }
	static Hca &hca() { return HcaInitializer::get_instance().get_hca(0); }
};

class Pd {
public:
	Pd(const char *key, Hca &) : name(key), pd(nullptr)
	{
		if (hartebeest_create_local_pd(key))
			pd = hartebeest_get_local_pd(key);
	}

	struct ibv_pd *get_pd() { return pd; }
	Hca *get_hca() { return &HcaInitializer::get_instance().get_hca(0); }
	const char *get_name() const { return name.c_str(); }

	hb_retcode create_mr(const char *key, size_t length, int access)
	{
		return retcode_of(hartebeest_create_local_mr(get_name(), key, length, access) &&
				  get_mr(key), PD_RETCODE_CREATE_MR_OK, PD_RETCODE_CREATE_MR_ERR);
	}

	hb_retcode create_qp(const char *key, enum ibv_qp_type type, struct ibv_cq *send,
			     struct ibv_cq *recv)
	{
		BasicCqCache &queues = BasicCqCache::get_instance();

		return retcode_of(hartebeest_create_local_qp(get_name(), key, type,
							     queues.name_of(send).c_str(),
							     queues.name_of(recv).c_str()) &&
				  get_qp(key), PD_RETCODE_CREATE_QP_OK, PD_RETCODE_CREATE_QP_ERR);
	}

	ResourceCache<Mr> &get_mr_cache() { return mr_cache; }
	ResourceCache<Qp> &get_qp_cache() { return qp_cache; }

	/* Finds what the library has under this name, even if a C function made it. */
	Mr *get_mr(const char *key)
	{
		return mr_cache.obtain(key, hartebeest_get_local_mr(get_name(), key),
				       MR_TYPE_LOCAL);
	}

	Qp *get_qp(const char *key)
	{
		return qp_cache.obtain(key, hartebeest_get_local_qp(get_name(), key), name);
	}

private:
	friend class ResourceCache<Pd>;

	std::string name;
	struct ibv_pd *pd;
	ResourceCache<Mr> mr_cache;
	ResourceCache<Qp> qp_cache;

	Pd(const char *key, struct ibv_pd *made) : name(key), pd(made) {}
	void take(struct ibv_pd *made) { pd = made; }
};

inline Qp::Qp(const char *key, enum ibv_qp_type type, Pd *pd, struct ibv_cq *send,
	      struct ibv_cq *recv)
	: name(key), pd_name(pd ? pd->get_name() : ""),
	  pos_type(pd ? QP_TYPE_LOCAL : QP_TYPE_UNKNOWN), qp(nullptr), copy(), pid(0), plid(0)
{
	if (pd && pd->create_qp(key, type, send, recv).ret_code == PD_RETCODE_CREATE_QP_OK)
		qp = hartebeest_get_local_qp(pd->get_name(), key);
}

class PdCache : public ResourceCache<Pd> {
public:
	PdCache(const char *key) : ResourceCache<Pd>(key) {}

	static PdCache &get_instance()
	{
		static PdCache global("SINGLETON_PD_CACHE");
		return global;
	}
};

/* ------------------------------------------------------------- exchange --- */

class MemcHandle {
public:
	virtual ~MemcHandle() {}
	virtual hb_retcode set(const char *key, const char *value) = 0;
	virtual hb_retcode get(const char *key, std::string &value) = 0;
};

/* Prefixes of keys, for prefix_set() and prefix_get(). */
enum {
	HB_MEMC_KEY_PREF_INIT,
	HB_MEMC_KEY_PREF_MRINFO,
	HB_MEMC_KEY_PREF_QPINFO,
	HB_MEMC_KEY_PREF_MRREADY,
	HB_MEMC_KEY_PREF_QPREADY
};

/*
 * Texts under keys, as messages like those of memc_push_general().  get() looks once, and
 * does not log that nothing is there, so that a program may ask repeatedly.
 */
class Exchanger : public MemcHandle {
public:
	static Exchanger &get_instance()
	{
		static Exchanger exchanger;
		return exchanger;
	}

	hb_retcode set(const char *key, const char *value) override
	{
		return retcode_of(hartebeest_msg_push(hartebeest_default_context(), key, value,
						      std::strlen(value), 0) == 0,
				  MEMCH_SET_OK, MEMCH_SET_ERR);
	}

	hb_retcode get(const char *key, std::string &value) override
	{
		struct hartebeest_message message;
		std::string text;
		int ret;

		hartebeest_message_init(&message);
		message.peer_key = key;
		message.length = 4096;
		do {
			text.resize(message.length);
			message.buffer = &text[0];
			message.room = text.size();
			message.arrived = 0;
			ret = hartebeest_msgs_wait(hartebeest_default_context(), &message, 1, 1,
						   HARTEBEEST_ONCE);
		} while (ret == 1 && message.result == -EMSGSIZE);
		if (ret == 1)
			value.assign(text, 0, message.length);
		return retcode_of(ret == 1, MEMCH_GET_OK, MEMCH_GET_ERR);
	}

	hb_retcode del(const char *key)
	{
		return retcode_of(hartebeest_memc_del_general(key), MEMCH_DEL_OK, MEMCH_DEL_ERR);
	}

	hb_retcode prefix_set(const char *key, const int prefix, const char *value)
	{
		return set((prefix_text(prefix) + key).c_str(), value);
	}

	hb_retcode prefix_get(const char *key, const int prefix, std::string &value)
	{
		return get((prefix_text(prefix) + key).c_str(), value);
	}

private:
	static std::string prefix_text(int prefix)
	{
		static const char *const texts[] = {
			"init", "mrinfo", "qpinfo", "mr-ready", "qp-ready",
		};

		if (prefix < HB_MEMC_KEY_PREF_INIT || prefix > HB_MEMC_KEY_PREF_QPREADY)
			throw std::out_of_range("hartebeest: key prefix " + std::to_string(prefix));
		return std::string("hartebeest-") + texts[prefix] + "-";
	}
};

/* ----------------------------------------------------------------- core --- */

/* All cores share the default context and its objects. */
class HartebeestCore {
public:
	HartebeestCore() { hartebeest_init(); }

	static HartebeestCore &get_instance()
	{
		static HartebeestCore core;
		return core;
	}

	HartebeestCore(const HartebeestCore &) = delete;
	HartebeestCore &operator=(const HartebeestCore &) = delete;

	/* Nothing is left to do: the constructor has called hartebeest_init(). */
	void init() {}

	char *get_sysvar(const char *name) { return hartebeest_get_sysvar(name); }

	/* -1 if neither HARTEBEEST_NID nor a launcher gives it. */
	int get_nid()
	{
		const char *nid = hartebeest_get_sysvar("HARTEBEEST_NID");

		return nid ? std::atoi(nid) : -1;
	}

	/* ------------------------------------------------------- messages --- */

	bool memc_push_general(const char *key) { return hartebeest_memc_push_general(key); }
	bool memc_wait_general(const char *key) { return hartebeest_memc_wait_general(key); }
	bool memc_del_general(const char *key) { return hartebeest_memc_del_general(key); }

	/* -------------------------------------------------- own resources --- */

	bool create_local_pd(const char *pd)
	{
		return hartebeest_create_local_pd(pd) && get_local_pd(pd);
	}

	bool create_local_mr(const char *pd, const char *mr, size_t length, int access)
	{
		return hartebeest_create_local_mr(pd, mr, length, access) && get_local_mr(pd, mr);
	}

	bool create_basiccq(const char *cq)
	{
		struct ibv_cq *made;

		return hartebeest_create_basiccq(cq) &&
		       hartebeest_cq_get(hartebeest_default_context(), cq, &made) == 0 &&
		       BasicCqCache::get_instance().obtain(cq, made);
	}

	bool create_local_qp(const char *pd, const char *qp, enum ibv_qp_type type,
			     const char *send_cq, const char *recv_cq)
	{
		return hartebeest_create_local_qp(pd, qp, type, send_cq, recv_cq) &&
		       get_local_qp(pd, qp);
	}

	bool init_local_qp(const char *pd, const char *qp)
	{
		return hartebeest_init_local_qp(pd, qp);
	}

	bool connect_local_qp(const char *pd, const char *qp, const char *remote_key)
	{
		return hartebeest_connect_local_qp(pd, qp, remote_key);
	}

	/* nullptr if there is none. */
	Pd *get_local_pd(const char *pd)
	{
		return PdCache::get_instance().obtain(pd, hartebeest_get_local_pd(pd));
	}

	Mr *get_local_mr(const char *pd, const char *mr)
	{
		Pd *domain = get_local_pd(pd);

		return domain ? domain->get_mr(mr) : nullptr;
	}

	Qp *get_local_qp(const char *pd, const char *qp)
	{
		Pd *domain = get_local_pd(pd);

		return domain ? domain->get_qp(qp) : nullptr;
	}

	/* ------------------------------------------------------- exchange --- */

	bool memc_push_local_mr(const char *key, const char *pd, const char *mr)
	{
		return hartebeest_memc_push_local_mr(key, pd, mr);
	}

	bool memc_push_local_qp(const char *key, const char *pd, const char *qp)
	{
		return hartebeest_memc_push_local_qp(key, pd, qp);
	}

	bool memc_fetch_remote_mr(const char *key) { return hartebeest_memc_fetch_remote_mr(key); }
	bool memc_fetch_remote_qp(const char *key) { return hartebeest_memc_fetch_remote_qp(key); }

	/* nullptr if it was not fetched. */
	Mr *get_remote_mr(const char *key)
	{
		return remote_mrs.obtain(key, hartebeest_get_remote_mr(key), MR_TYPE_REMOTE);
	}

	Qp *get_remote_qp(const char *key)
	{
		return remote_qps.obtain(key, hartebeest_get_remote_qp(key), "");
	}

	/* ------------------------------------------------------ data path --- */

	bool rdma_post_single_fast(struct ibv_qp *qp, void *local, void *remote, size_t length,
				   enum ibv_wr_opcode opcode, uint32_t lkey, uint32_t rkey,
				   uint64_t wr_id)
	{
		return hartebeest_rdma_post_single_fast(qp, local, remote, length, opcode, lkey,
							rkey, wr_id);
	}

	bool rdma_post_single_signaled_inline(struct ibv_qp *qp, void *local, void *remote,
					      size_t length, enum ibv_wr_opcode opcode,
					      uint32_t lkey, uint32_t rkey, uint64_t wr_id)
	{
		return hartebeest_rdma_post_single_signaled_inline(qp, local, remote, length,
								   opcode, lkey, rkey, wr_id);
	}

	bool rdma_poll(const char *cq) { return hartebeest_rdma_poll(cq); }
	bool rdma_send_poll(struct ibv_qp *qp) { return hartebeest_rdma_send_poll(qp); }
	bool rdma_recv_poll(struct ibv_qp *qp) { return hartebeest_rdma_recv_poll(qp); }

	/* --------------------------------------------------- lists of names --- */

	void pd_status() { PdCache::get_instance().out_cache_status(); }
	void cq_status() { BasicCqCache::get_instance().out_cache_status(); }

	void mr_status(const char *pd)
	{
		if (Pd *domain = get_local_pd(pd))
			domain->get_mr_cache().out_cache_status();
	}

	void qp_status(const char *pd)
	{
		if (Pd *domain = get_local_pd(pd))
			domain->get_qp_cache().out_cache_status();
	}

private:
	ResourceCache<Mr> remote_mrs;
	ResourceCache<Qp> remote_qps;
};

} /* namespace hartebeest */

#define HB_CFG_LOADER hartebeest::ConfigLoader::get_instance()
#define HB_HCA_INITR hartebeest::HcaInitializer::get_instance()
#define HB_PD_CACHE hartebeest::PdCache::get_instance()
#define HB_BASICCQ_CACHE hartebeest::BasicCqCache::get_instance()
#define HB_EXCHANGER hartebeest::Exchanger::get_instance()
#define HARTEBEEST_MEMC_HDL HB_EXCHANGER
#define HARTEBEEST_CORE_HDL hartebeest::HartebeestCore::get_instance()

#endif
